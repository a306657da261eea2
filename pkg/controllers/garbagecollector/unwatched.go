package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// end handles the end of a monitor. Its objects are kept, see rule 7; those that another one
// shows are still watched.
func (g *graph) end(m *monitored) {
	m.stopped = true
	for uid, other := range g.secondMonitors {
		n := g.nodes[uid]
		switch {
		case other.stopped:
			delete(g.secondMonitors, uid)
		case n.unwatched():
			g.followOther(n)
		}
	}
}

// followOther has a node follow the other resource that shows its object.
func (g *graph) followOther(n *node) {
	g.follow(n, g.secondMonitors[n.uid])
	delete(g.secondMonitors, n.uid)
}

// unwatchedKinds returns the resources of unwatched nodes.
func (g *graph) unwatchedKinds() map[schema.GroupResource]schema.GroupVersionResource {
	g.mu.RLock()
	defer g.mu.RUnlock()
	kinds := map[schema.GroupResource]schema.GroupVersionResource{}
	for m := range g.shown {
		if m.stopped {
			kinds[m.resource.GroupResource()] = m.resource
		}
	}
	return kinds
}

// someUnwatched reports whether there are unwatched nodes of the kinds.
func (g *graph) someUnwatched(kinds map[schema.GroupResource]bool) bool {
	for m := range g.shown {
		if m.stopped && kinds[m.resource.GroupResource()] {
			return true
		}
	}
	return false
}

// miss handles an object that a list of its informer lacks. If another resource shows it, nothing follows. If anything
// would follow from its absence, it becomes unwatched otherwise, and is read live: the API server may list from a cache
// that lost the object, or is behind.
func (g *graph) miss(c *change, e *effects) {
	n, known := g.nodes[c.old.GetUID()]
	switch {
	case !known || n.virtual || n.outlives(c.monitored):
	case n.monitored != c.monitored:
		delete(g.secondMonitors, n.uid) // it follows another resource, which shows it
	case g.secondMonitors[n.uid] != nil:
		g.followOther(n)
	case len(n.dependents) == 0 && !g.concernsOwners(n):
		g.drop(n, e)
	default:
		if c.monitored.unlisted == nil {
			c.monitored.unlisted = newMonitored(c.monitored.resource, c.monitored.kind)
			c.monitored.unlisted.stopped = true
		}
		g.follow(n, c.monitored.unlisted)
		e.attempt = append(e.attempt, n)
	}
}

// concernsOwners reports whether an owner of a node is being deleted: it may wait for the node.
func (g *graph) concernsOwners(n *node) bool {
	return slices.ContainsFunc(n.owners, func(ref metav1.OwnerReference) bool {
		owner, known := g.nodes[ref.UID]
		return known && owner.beingDeleted
	})
}

// answer handles the live read of an object that no informer shows.
func (g *graph) answer(c *change, e *effects) {
	n := c.node
	if g.nodes[n.uid] != n || !n.unwatched() {
		return // what an informer shows is newer
	}
	g.setOwners(n, c.new.GetOwnerReferences(), e)
	if c.new.GetDeletionTimestamp() != nil {
		n.beingDeleted = true
	}
	if !n.deletingDependents || deletingWith(c.new, metav1.FinalizerOrphanDependents) {
		g.transition(n, nil, c.new, e)
	}
}

// doubtUnseen causes live reads of objects that the informers of their kinds have not shown.
// That is no proof of absence: an informer can have listed from a stale API server. Only
// objects without owners and dependents are removed without a live read, since their absence
// has no consequences.
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

// forget removes the objects of kinds that are no longer considered from the graph. Whether
// they exist is unknown, so those with dependents become virtual: they are looked up, and while
// their kind is not served nothing is concluded.
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
	e.attempt = g.current(e.attempt) // without those whose dependents were forgotten as well
}

// current omits nodes that are no longer in the graph.
func (g *graph) current(nodes []*node) []*node {
	var kept []*node
	for _, n := range nodes {
		if g.nodes[n.uid] == n {
			kept = append(kept, n)
		}
	}
	return kept
}
