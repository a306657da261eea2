package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// observe takes account of an object as an informer shows it.
func (g *graph) observe(c *change, e *effects) {
	id := c.monitored.identityOf(c.new)
	n, known := g.nodes[id.uid]
	if known && n.outlives(c.monitored) {
		return
	}
	old := c.old
	if !known || n.virtual || n.unwatched() {
		old = nil // whatever it was, it has not been acted upon
	}
	if known {
		n = g.recognize(n, c.monitored, id, e)
		g.own(n, c.new.GetOwnerReferences(), e)
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
}

// outlives reports that what a monitor shows of the object comes too late: the monitor is
// over, and another one has shown the object since.
func (n *node) outlives(m *monitored) bool { return !n.virtual && m.over && n.monitored != m }

// recognize finds the node that an observed object is from now on, in place of one that was
// virtual, or of one that no informer showed for a while: its kind can have come back in
// another version.
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

// show takes note of what an object is observed through.
func (g *graph) show(n *node, m *monitored, e *effects) {
	if n.monitored == nil || n.unwatched() {
		g.uncount(n.monitored)
		n.monitored = m
		g.shown[m]++
	}
	if n.unwatched() {
		// These were the last words of a monitor that is over. No other will tell of the object.
		e.attempt = append(e.attempt, n)
	}
}

func (g *graph) uncount(m *monitored) {
	if m == nil {
		return
	}
	if g.shown[m]--; g.shown[m] == 0 {
		delete(g.shown, m)
	}
}

// identify makes an observed node of a virtual one. References that claimed another
// identity are looked into.
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

// own takes account of the owner references of a known node.
func (g *graph) own(n *node, refs []metav1.OwnerReference, e *effects) {
	diff := diffOwners(n.owners, refs)
	n.owners = refs // also if they are equal: the old ones need not be kept for the graph
	if diff.empty() {
		return
	}
	g.link(n, diff.added, e)
	for _, changed := range diff.changed {
		g.reblock(n, changed, e)
	}
	g.unlink(n, diff.removed, e)
}

// reblock takes account of a reference that changed. Its UID is the same.
func (g *graph) reblock(n *node, changed changedOwner, e *effects) {
	owner, known := g.nodes[changed.is.UID]
	if !known {
		return
	}
	owner.attach(n, blocks(n.owners, changed.is.UID))
	was, is := ptr.Deref(changed.was.BlockOwnerDeletion, false), ptr.Deref(changed.is.BlockOwnerDeletion, false)
	switch {
	case was && !is && owner.released():
		e.attempt = append(e.attempt, owner)
	case !was && is && owner.deletingDependents:
		e.attempt = append(e.attempt, n)
	}
}

// transition sets off the deletion that an object has asked for. Orphaning wins.
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

// begins reports that an object is being deleted with a finalizer and was not before. Of an
// object that is shown for the first time it is not known what was before.
func begins(old, new metav1.Object, finalizer string) bool {
	return deletingWith(new, finalizer) && (old == nil || !deletingWith(old, finalizer))
}

func deletingWith(object metav1.Object, finalizer string) bool {
	return object.GetDeletionTimestamp() != nil && slices.Contains(object.GetFinalizers(), finalizer)
}

func deletingDependents(object metav1.Object) bool {
	return deletingWith(object, metav1.FinalizerDeleteDependents)
}

// lose takes account of an object that an informer does not show any more.
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

// knows reports that an object is in the graph as an informer shows it.
func (g *graph) knows(object metav1.Object) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	n, found := g.nodes[object.GetUID()]
	return found && !n.virtual && !n.unwatched()
}

// concerns reports that an update of a known object makes a difference to the graph, which
// most do not.
func concerns(old, new metav1.Object) bool {
	return (old.GetDeletionTimestamp() == nil) != (new.GetDeletionTimestamp() == nil) ||
		!slices.Equal(old.GetFinalizers(), new.GetFinalizers()) ||
		!sameReferences(old.GetOwnerReferences(), new.GetOwnerReferences())
}
