package clusterroleaggregation

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
)

const (
	aggregatingRoles = "clusterRoleAggregating"
	rolesByLabel     = "clusterRoleLabel"
	rolesBySelector  = "clusterRoleSelector"
	// aggregates is the only key of the index of aggregating roles.
	aggregates = "true"
	// anyLabel is the key of selectors that require no label. It is not the key of a label.
	anyLabel = "*"
)

// roles finds ClusterRoles in the cache.
type roles struct {
	rbaclisters.ClusterRoleLister
	indexer cache.Indexer
}

func newRoles(informer cache.SharedIndexInformer) roles {
	index.Ensure(informer, aggregatingRoles, aggregatingKeys)
	index.Ensure(informer, rolesByLabel, labelKeys)
	index.Ensure(informer, rolesBySelector, selectorKeys)
	return roles{rbaclisters.NewClusterRoleLister(informer.GetIndexer()), informer.GetIndexer()}
}

func (r roles) aggregating() ([]*rbacv1.ClusterRole, error) {
	return r.indexed(aggregatingRoles, aggregates)
}

// aggregatesOf returns the roles that aggregate those with any of the label sets, some more than once. Only roles with
// a selector that requires one of the labels, or none, are compared.
func (r roles) aggregatesOf(sets []labels.Set) ([]*rbacv1.ClusterRole, error) {
	keys := []string{anyLabel}
	for _, set := range sets {
		for label, value := range set {
			keys = append(keys, labelKey(label, value))
		}
	}
	var found []*rbacv1.ClusterRole
	for _, key := range keys {
		candidates, err := r.indexed(rolesBySelector, key)
		if err != nil {
			return nil, err
		}
		for _, role := range candidates {
			if selects(role.AggregationRule, sets) {
				found = append(found, role)
			}
		}
	}
	return found, nil
}

// finder returns the roles that a selector selects, in no particular order.
type finder func(labels.Selector) ([]*rbacv1.ClusterRole, error)

// selectorError is the error of a selector that is invalid.
type selectorError struct{ error }

// sources returns the roles that each selector of an aggregation rule selects.
func (find finder) sources(rule *rbacv1.AggregationRule) ([][]*rbacv1.ClusterRole, error) {
	all := make([][]*rbacv1.ClusterRole, 0, len(rule.ClusterRoleSelectors))
	for n := range rule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&rule.ClusterRoleSelectors[n])
		if err != nil {
			return nil, selectorError{err}
		}
		selected, err := find(selector)
		if err != nil {
			return nil, err
		}
		all = append(all, selected)
	}
	return all, nil
}

// live is the finder that asks the API server.
func (a *aggregator) live(ctx context.Context) finder {
	return func(selector labels.Selector) ([]*rbacv1.ClusterRole, error) {
		list, err := a.Client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			return nil, err
		}
		selected := make([]*rbacv1.ClusterRole, len(list.Items))
		for i := range list.Items {
			selected[i] = &list.Items[i]
		}
		return selected, nil
	}
}

// cached is the finder that asks the index for the roles with one label that the selector requires. Without such a
// label it compares all roles.
func (r roles) cached(selector labels.Selector) ([]*rbacv1.ClusterRole, error) {
	key, ok := requiredLabel(selector)
	if !ok {
		return r.List(selector)
	}
	candidates, err := r.indexed(rolesByLabel, key)
	if err != nil {
		return nil, err
	}
	var selected []*rbacv1.ClusterRole
	for _, role := range candidates {
		if selector.Matches(labels.Set(role.Labels)) {
			selected = append(selected, role)
		}
	}
	return selected, nil
}

func (r roles) indexed(name, key string) ([]*rbacv1.ClusterRole, error) {
	return index.Append[*rbacv1.ClusterRole](nil, r.indexer, name, key)
}

// selects reports whether an aggregation rule selects any of the label sets. It returns true
// for an invalid selector, so that the role is reconciled and the error reported.
func selects(rule *rbacv1.AggregationRule, sets []labels.Set) bool {
	for n := range rule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&rule.ClusterRoleSelectors[n])
		if err != nil {
			return true
		}
		for _, set := range sets {
			if selector.Matches(set) {
				return true
			}
		}
	}
	return false
}

// requiredLabel returns the index key of a label that every selected role has.
func requiredLabel(selector labels.Selector) (key string, ok bool) {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return "", false
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.ValuesUnsorted(); len(values) == 1 {
				return labelKey(r.Key(), values[0]), true
			}
		}
	}
	return "", false
}

func aggregatingKeys(object any) ([]string, error) {
	if role, ok := object.(*rbacv1.ClusterRole); ok && role.AggregationRule != nil {
		return []string{aggregates}, nil
	}
	return nil, nil
}

// selectorKeys returns a label for each selector of a role that every role has which it selects. An invalid selector
// counts as one that requires none, see selects.
func selectorKeys(object any) ([]string, error) {
	role, ok := object.(*rbacv1.ClusterRole)
	if !ok || role.AggregationRule == nil {
		return nil, nil
	}
	keys := make([]string, 0, len(role.AggregationRule.ClusterRoleSelectors)) // an index ignores duplicate keys
	for n := range role.AggregationRule.ClusterRoleSelectors {
		key := anyLabel
		if selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[n]); err == nil {
			if label, ok := requiredLabel(selector); ok {
				key = label
			}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func labelKeys(object any) ([]string, error) {
	role, ok := object.(*rbacv1.ClusterRole)
	if !ok {
		return nil, nil
	}
	keys := make([]string, 0, len(role.Labels))
	for label, value := range role.Labels {
		keys = append(keys, labelKey(label, value))
	}
	return keys, nil
}

// labelKey is unique: the name of a label has no equals sign.
func labelKey(label, value string) string { return label + "=" + value }
