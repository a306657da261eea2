package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observe handles an object shown by an informer.
func (g *graph) observe(c *change, e *effects) {
	id := c.monitored.identityOf(c.new)
	n, known := g.nodes[id.uid]
	if known && n.outlives(c.monitored) {
		return
	}
	old := c.old
	if !known || n.virtual || n.unwatched() || n.relieved {
		old = nil // its old state has not been acted upon, or is over
	}
	if known {
		n = g.recognize(n, c.monitored, id, e)
		g.setOwners(n, c.new.GetOwnerReferences(), e)
	} else {
		n = &node{identity: id, owners: c.new.GetOwnerReferences()}
		n.deletingDependents = deletingDependents(c.new)
		g.nodes[id.uid] = n
		g.link(n, n.owners, e)
	}
	g.show(n, c.monitored, e)
	if c.new.GetDeletionTimestamp() != nil {
		n.beingDeleted = true
	}
	g.transition(n, old, c.new, e)
	n.relieved = false
}

// relieve records that a finalizer is removed from the object of a node, or that it was not.
func (g *graph) relieve(n *node, removed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n.relieved = removed
}

// outlives reports whether a notification is stale: its monitor has ended, and another one has
// shown the object since.
func (n *node) outlives(m *monitored) bool { return !n.virtual && m.stopped && n.monitored != m }

// recognize returns the node of an observed object. It replaces a virtual node, or one that no
// informer showed for a while: its kind can be served again in another version.
func (g *graph) recognize(n *node, m *monitored, id identity, e *effects) *node {
	switch {
	case n.virtual:
		return g.identify(n, id, e)
	case !n.unwatched() || n.monitored == m || n.identity == id:
		return n
	}
	again := g.replace(n, id)
	if len(n.owners) > 0 {
		e.attempt = append(e.attempt, again) // the old one may be waiting for that
	}
	return again
}

// show updates the monitored resource of a node.
func (g *graph) show(n *node, m *monitored, e *effects) {
	switch {
	case n.monitored == nil || n.unwatched():
		g.follow(n, m)
	case n.monitored != m:
		g.secondMonitors[n.uid] = m
	}
	if n.unwatched() {
		// The last notification of a monitor that has ended. No other one will show the object.
		e.attempt = append(e.attempt, n)
	}
}

func (g *graph) follow(n *node, m *monitored) {
	g.uncount(n.monitored)
	n.monitored = m
	g.shown[m]++
}

func (g *graph) uncount(m *monitored) {
	if m == nil {
		return
	}
	if g.shown[m]--; g.shown[m] == 0 {
		delete(g.shown, m)
	}
}

// identify turns a virtual node into an observed one. Dependents that claimed another identity
// are examined.
func (g *graph) identify(n *node, id identity, e *effects) *node {
	if n.identity != id {
		_, mistaken := partition(n.dependents, id)
		for _, dependent := range mistaken {
			if id.elsewhere(dependent.identity) {
				ref, _ := ofUID(dependent.owners, id.uid)
				e.invalid = append(e.invalid, invalidReference{dependent.identity, claimed(ref, dependent.namespace)})
			}
		}
		e.attempt = append(e.attempt, mistaken...)
		n = g.replace(n, id)
	}
	n.virtual = false
	return n
}

// setOwners updates the owner references of a known node.
func (g *graph) setOwners(n *node, refs []metav1.OwnerReference, e *effects) {
	diff := diffOwners(n.owners, refs)
	n.owners = refs // even if equal, so that the graph does not retain the old ones
	if diff.empty() {
		return
	}
	g.link(n, diff.added, e)
	for _, changed := range diff.changed {
		g.updateOwner(n, changed, e)
	}
	g.unlink(n, diff.removed, e)
	if _, itself := ofUID(diff.removed, n.uid); itself && n.released() {
		e.attempt = append(e.attempt, n) // unlink leaves it out, for it also serves those that leave the graph
	}
}

// updateOwner handles a reference to the same UID that changed in another field.
func (g *graph) updateOwner(n *node, changed changedOwner, e *effects) {
	owner, known := g.nodes[changed.is.UID]
	if !known {
		return
	}
	owner.attach(n)
	if claimed(changed.was, "") != claimed(changed.is, "") && g.suspects(n, owner, changed.is, e) {
		e.attempt = append(e.attempt, n)
	}
	was, is := isBlocking(changed.was), isBlocking(changed.is)
	switch {
	case was && !is && owner.released():
		e.attempt = append(e.attempt, owner)
	case !was && is && owner.deletingDependents:
		e.attempt = append(e.attempt, n)
	}
}

// transition starts the deletion that the finalizers of an object require. Orphaning takes
// precedence.
func (g *graph) transition(n *node, old, new metav1.Object, e *effects) {
	switch {
	case begins(old, new, metav1.FinalizerOrphanDependents):
		e.orphan = append(e.orphan, n)
	case begins(old, new, metav1.FinalizerDeleteDependents):
		n.deletingDependents = true
		for dependent := range n.dependents {
			e.attempt = append(e.attempt, dependent)
		}
		e.attempt = append(e.attempt, n)
	}
}

// begins reports whether an object is being deleted with a finalizer and was not before. Of a
// new object the previous state is unknown.
func begins(old, new metav1.Object, finalizer string) bool {
	return deletingWith(new, finalizer) && (old == nil || !deletingWith(old, finalizer))
}

func deletingWith(object metav1.Object, finalizer string) bool {
	return object.GetDeletionTimestamp() != nil && hasFinalizer(object, finalizer)
}

func deletingDependents(object metav1.Object) bool {
	return deletingWith(object, metav1.FinalizerDeleteDependents)
}

// lose handles an object that an informer no longer shows.
func (g *graph) lose(c *change, e *effects) {
	id := c.monitored.identityOf(c.old)
	n, known := g.nodes[id.uid]
	if !known || n.outlives(c.monitored) {
		return
	}
	if n.virtual {
		n = g.identify(n, id, e)
	}
	g.remove(n, id, e)
}

// knows reports whether an object is in the graph with the state that an informer shows.
func (g *graph) knows(object metav1.Object) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	n, found := g.nodes[object.GetUID()]
	return found && !n.virtual && !n.unwatched() && !n.relieved
}

// concerns reports whether an update of a known object is relevant to the graph, which most are
// not.
func concerns(old, new metav1.Object) bool {
	return (old.GetDeletionTimestamp() == nil) != (new.GetDeletionTimestamp() == nil) ||
		!slices.Equal(old.GetFinalizers(), new.GetFinalizers()) ||
		!sameReferences(old.GetOwnerReferences(), new.GetOwnerReferences())
}
