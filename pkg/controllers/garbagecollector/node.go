package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// monitored is a resource for as long as one monitor watches it, with the kind of its objects.
// Nodes point to it, so each monitor has its own.
type monitored struct {
	resource   schema.GroupVersionResource
	apiVersion string
	kind       string
	// stopped is set when the monitor is stopped. It is guarded by the lock of the graph.
	stopped bool
	// unlisted is what nodes point to whose objects a list of the monitor lacks: a monitored that counts as stopped;
	// nil if there was none. It is guarded by the lock of the graph.
	unlisted *monitored
}

func newMonitored(resource schema.GroupVersionResource, kind string) *monitored {
	return &monitored{resource: resource, apiVersion: resource.GroupVersion().String(), kind: kind}
}

// identityOf returns the identity of an observed object. Its kind is that of the monitored
// resource, regardless of the object's own.
func (m *monitored) identityOf(object metav1.Object) identity {
	return identity{
		apiVersion: m.apiVersion,
		kind:       m.kind,
		namespace:  object.GetNamespace(),
		name:       object.GetName(),
		uid:        object.GetUID(),
	}
}

// node is an object in the graph. The identity of a node never changes: a node that turns out
// to be another object is replaced, so that an old pointer in a queue can be recognized as
// obsolete. All other fields are guarded by the lock of the graph.
type node struct {
	identity

	// monitored is the resource through which the object was observed; nil if virtual. Until
	// its monitor ends it does not change, even if another resource shows the same object, see
	// graph.secondMonitors.
	monitored *monitored
	// owners are the owner references seen last. They are shared with the cached object.
	owners []metav1.OwnerReference
	// dependents are the nodes with a reference to this one, with whether that blocks the
	// foreground deletion of this one. blocking counts those that do.
	dependents map[*node]bool
	blocking   int

	// virtual nodes are known from references only. A node becomes observed once.
	virtual bool
	// refuted is how many claims about a virtual node have turned out to be wrong.
	refuted int
	// beingDeleted objects have a deletion timestamp, deletingDependents also the finalizer of
	// foreground deletion. Neither is ever reset.
	beingDeleted, deletingDependents bool
	// relieved is set when a finalizer is removed from the object, until an informer shows the object again. If it
	// shows the finalizer then, that may have come back unseen.
	relieved bool
}

// unwatched reports whether the object was observed but no informer shows it any more. Its
// present state is unknown, as is whether it exists.
func (n *node) unwatched() bool { return !n.virtual && n.monitored.stopped }

// attach records a dependent, or that its blocking may have changed. What n cannot own does not block it.
func (n *node) attach(dependent *node) {
	was, is := n.dependents[dependent], blocks(dependent.owners, n.uid) && !n.elsewhere(dependent.identity)
	if n.dependents == nil {
		n.dependents = map[*node]bool{}
	}
	n.dependents[dependent] = is
	n.count(was, is)
}

func (n *node) detach(dependent *node) {
	was := n.dependents[dependent]
	delete(n.dependents, dependent)
	n.count(was, false)
}

func (n *node) count(was, is bool) {
	switch {
	case is && !was:
		n.blocking++
	case was && !is:
		n.blocking--
	}
}

// released reports whether a foreground deletion of the node no longer waits for a dependent.
func (n *node) released() bool { return n.deletingDependents && n.blocking == 0 }

// blocks reports whether references block the foreground deletion of the owner.
func blocks(owners []metav1.OwnerReference, owner types.UID) bool {
	return slices.ContainsFunc(owners, func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && isBlocking(ref)
	})
}

// ownerChanges is the difference between two lists of owner references, by UID.
type ownerChanges struct {
	added, removed []metav1.OwnerReference
	// changed are references to the same UID that differ in any field, before and after.
	changed []changedOwner
}

type changedOwner struct{ was, is metav1.OwnerReference }

func (c ownerChanges) empty() bool {
	return len(c.added) == 0 && len(c.removed) == 0 && len(c.changed) == 0
}

// replaces reports whether the change of a reference is among those found.
func (c ownerChanges) replaces(ref metav1.OwnerReference) bool {
	return slices.ContainsFunc(c.changed, func(changed changedOwner) bool { return sameReference(changed.was, ref) })
}

func diffOwners(was, is []metav1.OwnerReference) ownerChanges {
	var c ownerChanges
	for _, ref := range is {
		before, found := ofUID(was, ref.UID)
		switch {
		case !found:
			c.added = append(c.added, ref)
		case !hasReference(was, ref):
			c.changed = append(c.changed, changedOwner{before, ref})
		}
	}
	for _, ref := range was {
		left, found := ofUID(is, ref.UID)
		switch {
		case !found:
			c.removed = append(c.removed, ref)
		case !hasReference(is, ref) && !c.replaces(ref): // one of several to the same owner was removed
			c.changed = append(c.changed, changedOwner{ref, left})
		}
	}
	return c
}

func ofUID(refs []metav1.OwnerReference, uid types.UID) (metav1.OwnerReference, bool) {
	i := slices.IndexFunc(refs, func(ref metav1.OwnerReference) bool { return ref.UID == uid })
	if i < 0 {
		return metav1.OwnerReference{}, false
	}
	return refs[i], true
}

func sameReference(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		ptr.Equal(a.Controller, b.Controller) && ptr.Equal(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}

func hasReference(refs []metav1.OwnerReference, ref metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(other metav1.OwnerReference) bool { return sameReference(other, ref) })
}

func sameReferences(a, b []metav1.OwnerReference) bool { return slices.EqualFunc(a, b, sameReference) }
