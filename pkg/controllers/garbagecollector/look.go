package garbagecollector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// state is what workers need to know of a node, at one moment.
type state struct {
	// current is false once the graph does not hold the node any more: it is gone, or was
	// replaced by one with another identity.
	current                                   bool
	virtual, beingDeleted, deletingDependents bool
	// resource is that of an observed node.
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
		s.resource = n.monitored.resource
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

// ownersOf returns the references of a node. They are never changed in place.
func (g *graph) ownersOf(n *node) []metav1.OwnerReference {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return n.owners
}

// lives reports that an informer has shown just the owner that a reference of an object in
// the namespace is to, and that the owner is not being deleted. Should it be deleted the
// object is looked at again. That an owner does not exist is never concluded from here.
func (g *graph) lives(ref metav1.OwnerReference, namespace string) (*monitored, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	owner, found := g.nodes[ref.UID]
	if !found || owner.virtual || owner.beingDeleted || owner.seen != g.epoch {
		return nil, false
	}
	if !owner.matches(ref) || owner.namespace != "" && owner.namespace != namespace {
		return nil, false
	}
	return owner.monitored, true
}

// resources returns those of observed nodes.
func (g *graph) resources() map[schema.GroupVersionResource]bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all := map[schema.GroupVersionResource]bool{}
	for _, n := range g.nodes {
		if !n.virtual {
			all[n.monitored.resource] = true
		}
	}
	return all
}
