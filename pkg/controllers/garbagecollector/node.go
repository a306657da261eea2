package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// monitored is a resource for as long as one monitor watches it, with the kind its objects
// are given. Nodes point to it, so there is one for each monitor.
type monitored struct {
	resource   schema.GroupVersionResource
	apiVersion string
	kind       string
	// over says that the monitor was given up. It is guarded by the lock of the graph.
	over bool
}

func newMonitored(resource schema.GroupVersionResource, kind string) *monitored {
	return &monitored{resource: resource, apiVersion: resource.GroupVersion().String(), kind: kind}
}

// identityOf is the identity of an observed object: its kind is that of the resource it was
// observed through, whatever it says itself.
func (m *monitored) identityOf(object metav1.Object) identity {
	return identity{
		apiVersion: m.apiVersion,
		kind:       m.kind,
		namespace:  object.GetNamespace(),
		name:       object.GetName(),
		uid:        object.GetUID(),
	}
}

// node is an object in the graph. The identity of a node never changes: a node that turns
// out to be another object is replaced, so that an old pointer in a queue can be told to be
// obsolete. All else is guarded by the lock of the graph.
type node struct {
	identity

	// monitored is what the object was observed through; nil if virtual. While that is not
	// over it stays the same, should another resource show the same object.
	monitored *monitored
	// owners are the owner references seen last. They belong to the object in the cache.
	owners []metav1.OwnerReference
	// dependents are the nodes with a reference to this one, with whether that blocks the
	// foreground deletion of this one. blocking counts those that do.
	dependents map[*node]bool
	blocking   int

	// virtual nodes are known from references only. A node becomes observed once.
	virtual bool
	// beingDeleted objects have a deletion timestamp, deletingDependents also the finalizer
	// of foreground deletion. Neither goes back.
	beingDeleted, deletingDependents bool
}

// unwatched reports that the object was observed and that no informer shows it any more. It
// is not known whether it exists, and what has become of it.
func (n *node) unwatched() bool { return !n.virtual && n.monitored.over }

// attach records a dependent, or that it blocks differently now.
func (n *node) attach(dependent *node, blocks bool) {
	was := n.dependents[dependent]
	if n.dependents == nil {
		n.dependents = map[*node]bool{}
	}
	n.dependents[dependent] = blocks
	n.count(was, blocks)
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

// released reports that a foreground deletion of the node waits for no dependent any more.
func (n *node) released() bool { return n.deletingDependents && n.blocking == 0 }

// blocks reports that references block the foreground deletion of the owner.
func blocks(owners []metav1.OwnerReference, owner types.UID) bool {
	return slices.ContainsFunc(owners, func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ptr.Deref(ref.BlockOwnerDeletion, false)
	})
}

// ownerChanges is the difference between two lists of owner references, by UID.
type ownerChanges struct {
	added, removed []metav1.OwnerReference
	// changed are references to the same UID that differ in any field, as they were and are.
	changed []changedOwner
}

type changedOwner struct{ was, is metav1.OwnerReference }

func (c ownerChanges) empty() bool {
	return len(c.added) == 0 && len(c.removed) == 0 && len(c.changed) == 0
}

func diffOwners(was, is []metav1.OwnerReference) ownerChanges {
	var c ownerChanges
	for _, ref := range is {
		before, found := ofUID(was, ref.UID)
		switch {
		case !found:
			c.added = append(c.added, ref)
		case !sameReference(before, ref):
			c.changed = append(c.changed, changedOwner{before, ref})
		}
	}
	for _, ref := range was {
		if _, found := ofUID(is, ref.UID); !found {
			c.removed = append(c.removed, ref)
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

func sameReferences(a, b []metav1.OwnerReference) bool { return slices.EqualFunc(a, b, sameReference) }
