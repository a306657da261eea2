package clusterroleaggregation

import (
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// aggregate returns the rules of a role: those of the sources of each selector, ordered by the
// name of the source, without the role itself and without rules that equal an earlier one. It
// sorts the sources.
func aggregate(name string, sources [][]*rbacv1.ClusterRole) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	seen := map[string]bool{}
	for _, selected := range sources {
		slices.SortFunc(selected, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
		for _, source := range selected {
			if source.Name == name {
				continue
			}
			for _, rule := range source.Rules {
				if id := identity(rule); !seen[id] {
					seen[id] = true
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}

// identity is the same for rules that are semantically equal: the order within a list
// counts, whether a list is nil or empty does not.
func identity(rule rbacv1.PolicyRule) string {
	var b strings.Builder
	for _, list := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames, rule.NonResourceURLs} {
		for _, s := range list {
			b.WriteString(strconv.Quote(s))
		}
		b.WriteByte(';')
	}
	return b.String()
}
