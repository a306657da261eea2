package clusterroleaggregation

import (
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// aggregate returns the rules of a role: those of the sources of each selector, ordered by the
// name of the source, without the role itself and without rules that equal an earlier one. It
// sorts the sources.
//
// A source that aggregates the role in turn counts with its sources and not with its rules. The rules of such roles
// would follow from one another: two that are written at the same time would exchange theirs for ever, and what a
// source had once would stay with them.
func aggregate(name string, all network) []rbacv1.PolicyRule {
	u := union{network: all, cycle: all.cycle(name), visited: sets.New[string](), seen: sets.New[string]()}
	u.visit(name)
	return u.rules
}

// union collects the rules of the sources of a role and of those that aggregate it in turn.
type union struct {
	network
	cycle, visited sets.Set[string] // names of roles
	seen           sets.Set[string] // identities of rules
	rules          []rbacv1.PolicyRule
}

func (u *union) visit(name string) {
	u.visited.Insert(name)
	for _, selected := range u.network[name] {
		slices.SortFunc(selected, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
		for _, source := range selected {
			switch {
			case u.visited.Has(source.Name):
			case u.cycle.Has(source.Name):
				u.visit(source.Name)
			default:
				u.add(source.Rules)
			}
		}
	}
}

func (u *union) add(rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		if id := identity(rule); !u.seen.Has(id) {
			u.seen.Insert(id)
			u.rules = append(u.rules, rule)
		}
	}
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
