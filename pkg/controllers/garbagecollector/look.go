package garbagecollector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// state is what workers need to know of a node, at one moment.
type state struct {
	// current is false once the graph does not hold the node any more: it is gone, or was
	// replaced by one with another identity.
	current                                              bool
	virtual, unwatched, beingDeleted, deletingDependents bool
	// resource is what an observed node was observed through.
	resource schema.GroupVersionResource
	// dependents is their number; deletingDependent that one of them deletes its own.
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
// them that do not delete their own dependents yet.
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

// hasOthers reports that a node has dependents that are not among the given ones.
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

// lives reports that an informer shows just the owner that a reference of an object in the
// namespace is to, and that the owner is not being deleted. Should it be deleted the
// object is looked at again. That an owner does not exist is never concluded from here.
func (g *graph) lives(ref metav1.OwnerReference, namespace string) (*monitored, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	owner, found := g.nodes[ref.UID]
	if !found || owner.virtual || owner.unwatched() || owner.beingDeleted {
		return nil, false
	}
	if !owner.matches(ref) || owner.namespace != "" && owner.namespace != namespace {
		return nil, false
	}
	return owner.monitored, true
}
