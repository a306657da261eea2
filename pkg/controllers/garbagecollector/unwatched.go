package garbagecollector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unwatchedKinds returns the resources of nodes that no informer shows any more.
func (g *graph) unwatchedKinds() map[schema.GroupResource]schema.GroupVersionResource {
	g.mu.RLock()
	defer g.mu.RUnlock()
	kinds := map[schema.GroupResource]schema.GroupVersionResource{}
	for m := range g.shown {
		if m.over {
			kinds[m.resource.GroupResource()] = m.resource
		}
	}
	return kinds
}

// someUnwatched reports that there are nodes of kinds that no informer shows any more.
func (g *graph) someUnwatched(kinds map[schema.GroupResource]bool) bool {
	for m := range g.shown {
		if m.over && kinds[m.resource.GroupResource()] {
			return true
		}
	}
	return false
}

// answer takes account of an object as the API server has it, while no informer shows it.
func (g *graph) answer(c *change, e *effects) {
	n := c.node
	if g.nodes[n.uid] != n || !n.unwatched() {
		return // what an informer shows is newer
	}
	g.own(n, c.new.GetOwnerReferences(), e)
	if c.new.GetDeletionTimestamp() != nil {
		n.beingDeleted = true
	}
	if !n.deletingDependents || deletingWith(c.new, metav1.FinalizerOrphanDependents) {
		g.transition(n, nil, c.new, e)
	}
}

// doubtUnseen has the objects looked up that the informers of their kinds should have shown
// and have not. That proves nothing: an informer can have listed from an API server that is
// behind. Only what neither owns nor is owned goes without an answer, since nothing is ever
// concluded from its absence.
func (g *graph) doubtUnseen(kinds map[schema.GroupResource]bool, e *effects) {
	if !g.someUnwatched(kinds) {
		return
	}
	for _, n := range g.nodes {
		switch {
		case !n.unwatched() || !kinds[n.monitored.resource.GroupResource()]:
		case len(n.owners) == 0 && len(n.dependents) == 0:
			g.drop(n, e)
		default:
			e.attempt = append(e.attempt, n)
		}
	}
}

// forget takes the objects of kinds out of the graph that are not watched and do not count
// any more. It is not known whether they exist, so those with dependents become virtual:
// they are looked up, and as long as their kind is not served nothing is concluded from that.
func (g *graph) forget(kinds map[schema.GroupResource]bool, e *effects) {
	if !g.someUnwatched(kinds) {
		return
	}
	for _, n := range g.nodes {
		if n.virtual || !n.unwatched() || !kinds[n.monitored.resource.GroupResource()] {
			continue
		}
		g.drop(n, e)
		if len(n.dependents) == 0 {
			continue
		}
		virtual := &node{identity: n.identity, dependents: n.dependents, blocking: n.blocking, virtual: true}
		g.nodes[n.uid] = virtual
		e.attempt = append(e.attempt, virtual)
	}
	g.dropChildless(e)
	e.attempt = g.current(e.attempt)
}

// dropChildless removes new virtual nodes whose dependents were forgotten as well.
func (g *graph) dropChildless(e *effects) {
	for _, n := range e.attempt {
		if n.virtual && len(n.dependents) == 0 && g.nodes[n.uid] == n {
			delete(g.nodes, n.uid)
		}
	}
}

// current drops nodes that are not in the graph any more.
func (g *graph) current(nodes []*node) []*node {
	var kept []*node
	for _, n := range nodes {
		if g.nodes[n.uid] == n {
			kept = append(kept, n)
		}
	}
	return kept
}
