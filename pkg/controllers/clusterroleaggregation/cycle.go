package clusterroleaggregation

import (
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// network holds the sources of a role, of those of its sources that aggregate, and so on: by name, what each selector
// of the role selects.
type network map[string][][]*rbacv1.ClusterRole

// network returns the network of a role that aggregates. A role with an invalid selector, other than the role itself,
// counts as one that has its rules for good.
func (find finder) network(role *rbacv1.ClusterRole) (network, error) {
	found := network{}
	for next := []*rbacv1.ClusterRole{role}; len(next) > 0; next = next[1:] {
		at := next[0]
		if _, known := found[at.Name]; known {
			continue
		}
		sources, err := find.sources(at.AggregationRule)
		if err != nil && (at == role || !errors.As(err, new(selectorError))) {
			return nil, err
		}
		found[at.Name] = sources
		for _, selected := range sources {
			for _, source := range selected {
				if source.AggregationRule != nil {
					next = append(next, source)
				}
			}
		}
	}
	return found, nil
}

// cycle returns the names of a role of the network and of those sources of it, direct or not, that aggregate it in
// turn.
func (n network) cycle(name string) sets.Set[string] {
	aggregating := map[string][]string{} // by the name of a source
	for by, sources := range n {
		for _, selected := range sources {
			for _, source := range selected {
				if source.AggregationRule != nil {
					aggregating[source.Name] = append(aggregating[source.Name], by)
				}
			}
		}
	}
	found := sets.New(name)
	for next := []string{name}; len(next) > 0; next = next[1:] {
		for _, by := range aggregating[next[0]] {
			if !found.Has(by) {
				found.Insert(by)
				next = append(next, by)
			}
		}
	}
	return found
}
