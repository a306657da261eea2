package garbagecollector

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// confirmAbsent handles a live read that found no object with an identity. Only dependents that
// refer to exactly that identity are affected: others may claim another kind or namespace for
// the same UID, and one of them may be right.
func (g *graph) confirmAbsent(id identity, e *effects) {
	n, known := g.nodes[id.uid]
	switch {
	case !known:
	case !n.virtual && n.identity == id:
		g.remove(n, id, e)
	case !n.virtual:
		matching, _ := partition(n.dependents, id)
		g.condemn(matching, id, e)
	default:
		g.confirmVirtualAbsent(n, id, e)
	}
}

func (g *graph) confirmVirtualAbsent(n *node, id identity, e *effects) {
	matching, others := partition(n.dependents, id)
	if len(others) == 0 {
		g.remove(n, id, e)
		return
	}
	g.condemn(matching, id, e)
	if !id.covers(n.identity) {
		return
	}
	if next, found := alternate(others, id); found {
		again := g.replace(n, next)
		again.refuted++
		e.later = append(e.later, doubt{again, doubtAfter(again.refuted)})
	}
}

// doubt is a virtual node of which another claim is to be looked up after a delay.
type doubt struct {
	node  *node
	after time.Duration
}

// The delays between looks at the claims about one virtual node are those of a key that fails.
const (
	firstDoubt = 5 * time.Millisecond
	lastDoubt  = 1000 * time.Second
)

// doubtAfter returns the delay after a number of claims were refuted. All of them can be, while
// finalizers or refused requests keep the dependents. A new dependent does not wait, see suspects.
func doubtAfter(refuted int) time.Duration {
	return min(firstDoubt<<min(refuted-1, 20), lastDoubt)
}

// condemn enqueues the dependents of an absent owner.
func (g *graph) condemn(dependents []*node, owner identity, e *effects) {
	if len(dependents) == 0 {
		return
	}
	g.absent.add(owner)
	e.attempt = append(e.attempt, dependents...)
}

// partition divides dependents into those that refer to exactly the identity and those that
// claim another one for its UID. A dependent with several references can be both.
func partition(dependents map[*node]bool, id identity) (matching, others []*node) {
	for dependent := range dependents {
		matches, differs := claims(dependent, id)
		if matches {
			matching = append(matching, dependent)
		}
		if differs {
			others = append(others, dependent)
		}
	}
	return matching, others
}

func claims(dependent *node, id identity) (matches, differs bool) {
	if id.elsewhere(dependent.identity) {
		return false, true
	}
	for _, ref := range dependent.owners {
		if ref.UID != id.uid {
			continue
		}
		if id.matches(ref) {
			matches = true
		} else {
			differs = true
		}
	}
	return matches, differs
}

// alternate returns another identity that dependents claim for the UID of an absent one: the
// next in order, or the first, so that each is eventually looked up.
func alternate(dependents []*node, absent identity) (identity, bool) {
	var candidates []identity
	for _, dependent := range dependents {
		for _, ref := range dependent.owners {
			if candidate, ok := candidateOf(dependent, ref, absent); ok {
				candidates = append(candidates, candidate)
			}
		}
	}
	if len(candidates) == 0 {
		return identity{}, false
	}
	slices.SortFunc(candidates, identity.compare)
	for _, candidate := range candidates {
		if candidate.compare(absent) > 0 {
			return candidate, true
		}
	}
	return candidates[0], true
}

func candidateOf(dependent *node, ref metav1.OwnerReference, absent identity) (identity, bool) {
	if ref.UID != absent.uid {
		return identity{}, false
	}
	if absent.matches(ref) && (absent.namespace == "" || absent.namespace == dependent.namespace) {
		return identity{}, false
	}
	candidate := claimed(ref, dependent.namespace)
	if absent.namespace == "" && ref.APIVersion == absent.apiVersion && ref.Kind == absent.kind {
		// The kind is known to be cluster-scoped.
		candidate.namespace = ""
	}
	return candidate, true
}
