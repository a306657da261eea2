package garbagecollector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// state is a snapshot of a node for the workers.
type state struct {
	// current is false once the graph no longer contains the node: its object was deleted, or
	// it was replaced by a node with another identity.
	current                                              bool
	virtual, unwatched, beingDeleted, deletingDependents bool
	// resource is the monitored resource of an observed node.
	resource schema.GroupVersionResource
	// dependents is their number; deletingDependent is whether one of them is deleting its own.
	dependents        int
	deletingDependent bool
}

func (g *graph) look(n *node) state {
	g.mu.RLock()
	defer g.mu.RUnlock()
	s := state{
		current:            g.nodes[n.uid] == n,
		virtual:            n.virtual,
		beingDeleted:       n.beingDeleted,
		deletingDependents: n.deletingDependents,
		dependents:         len(n.dependents),
	}
	if n.monitored != nil {
		s.resource, s.unwatched = n.monitored.resource, n.unwatched()
	}
	for dependent := range n.dependents {
		if dependent.deletingDependents {
			s.deletingDependent = true
			break
		}
	}
	return s
}

// blockers returns the number of dependents that block the deletion of a node, and those of
// them that are not deleting their own dependents yet.
func (g *graph) blockers(n *node) (all int, idle []*node) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for dependent, blocks := range n.dependents {
		if blocks && !dependent.deletingDependents {
			idle = append(idle, dependent)
		}
	}
	return n.blocking, idle
}

// blocksItself reports whether a node blocks its own foreground deletion: it blocks that of an owner, which blocks that
// of its owner, and so on up to the node.
func (g *graph) blocksItself(n *node) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	seen := sets.New[*node]()
	for left := []*node{n}; len(left) > 0; {
		dependent := left[len(left)-1]
		left = left[:len(left)-1]
		for _, ref := range dependent.owners {
			owner, known := g.nodes[ref.UID]
			switch {
			case !known || seen.Has(owner) || !owner.deletingDependents || !owner.dependents[dependent]:
			case owner == n:
				return true
			default:
				seen.Insert(owner)
				left = append(left, owner)
			}
		}
	}
	return false
}

// dependentsOf returns the dependents of a node.
func (g *graph) dependentsOf(n *node) []*node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all := make([]*node, 0, len(n.dependents))
	for dependent := range n.dependents {
		all = append(all, dependent)
	}
	return all
}

// hasOthers reports whether a node has dependents that are not among the given ones.
func (g *graph) hasOthers(n *node, dependents []*node) bool {
	known := sets.New(dependents...)
	g.mu.RLock()
	defer g.mu.RUnlock()
	for dependent := range n.dependents {
		if !known.Has(dependent) {
			return true
		}
	}
	return false
}

// lives returns the monitor that shows exactly the owner that a reference of an object claims, not being deleted; nil if
// none does, which does not mean that the owner does not exist. It reports whether the object is among the dependents of
// the owner, so that its deletion would enqueue the object again. It is not if the owner was found to be absent and was
// shown only later, by an informer that is behind.
func (g *graph) lives(ref metav1.OwnerReference, item identity) (as *monitored, linked bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	owner, found := g.nodes[ref.UID]
	if !found || owner.virtual || owner.unwatched() || owner.beingDeleted {
		return nil, false
	}
	if !owner.matches(ref) || owner.elsewhere(item) {
		return nil, false
	}
	_, linked = owner.dependents[g.nodes[item.uid]]
	return owner.monitored, linked
}
