package owners

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// Enqueue enqueues an owner.
func (o *Owners[T]) Enqueue(lane reconcile.Lane, owner T) {
	o.Queue.Enqueue(lane, reconcile.KeyOf(owner))
}

// EnqueueAfter enqueues an owner once the delay has passed.
func (o *Owners[T]) EnqueueAfter(owner T, delay time.Duration) {
	o.Queue.AddAfter(reconcile.KeyOf(owner), delay)
}

// Watch adds the handlers to the informer of the owners.
func (o *Owners[T]) Watch() {
	watch.Objects(o.options.Informer, watch.Funcs[T]{
		Add: o.Enqueue, Update: o.Updated, Delete: o.Deleted, Missed: o.Missed,
	})
}

// Updated handles an update of an owner.
func (o *Owners[T]) Updated(lane reconcile.Lane, old, owner T) {
	if old.GetUID() != owner.GetUID() {
		o.Deleted(old)
	}
	if !o.isEcho(lane, old, owner) {
		o.Enqueue(lane, owner)
	}
}

// isEcho reports whether an update shows the controller's own status write and nothing else. A
// resync is never an echo: its purpose is to reconcile again.
func (o *Owners[T]) isEcho(lane reconcile.Lane, old, owner T) bool {
	return o.options.MayIgnoreEcho != nil &&
		!lane.IsBacklog() &&
		old.GetUID() == owner.GetUID() &&
		old.GetGeneration() == owner.GetGeneration() &&
		(old.GetDeletionTimestamp() == nil) == (owner.GetDeletionTimestamp() == nil) &&
		o.options.MayIgnoreEcho(old, owner) &&
		o.Writes.IsEcho(owner)
}

// Deleted handles the deletion of an owner.
func (o *Owners[T]) Deleted(owner T) {
	o.Writes.Forget(owner)
	o.missed.drop(reconcile.KeyOf(owner))
	o.Enqueue(reconcile.Gone(owner), owner)
}

// Missed handles an owner that a list after a break of the watch lacked. It may exist, so what was written for it is
// kept for a while: a cache that is behind may yet show its dependents as they were before.
func (o *Owners[T]) Missed(owner T) {
	o.missed.add(reconcile.KeyOf(owner), o.env.Clock.Now())
	o.Enqueue(reconcile.Gone(owner), owner)
}

// IsMissed reports whether there may be an owner that the cache lacks, see Missed.
func (o *Owners[T]) IsMissed(key types.NamespacedName) bool { return !o.missed.since(key).IsZero() }

// Of returns the owner that controls a dependent, and false if there is none of the kind.
func (o *Owners[T]) Of(dependent metav1.Object) (T, bool) {
	return Resolve(metav1.GetControllerOfNoCopy(dependent), o.options.Kind.Kind, func(name string) (T, error) {
		return o.Cached(types.NamespacedName{Namespace: dependent.GetNamespace(), Name: name})
	})
}

// MayOwn reports whether an owner of the kind controls a dependent, or nobody does.
func (o *Owners[T]) MayOwn(dependent metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(dependent)
	return ref == nil || ref.Kind == o.options.Kind.Kind
}

// matching calls do with every owner whose selector matches the labels of an orphan.
func (o *Owners[T]) matching(orphan metav1.Object, do func(T)) {
	set := labels.Set(orphan.GetLabels())
	if len(set) == 0 || o.options.Selector == nil {
		return
	}
	here, err := o.cached.ByIndex(cache.NamespaceIndex, orphan.GetNamespace())
	if err != nil {
		klog.Background().Error(err, "Failed to look up the owners that match an orphan",
			"kind", o.options.Kind.Kind, "namespace", orphan.GetNamespace())
		return
	}
	for _, item := range here {
		if owner, ok := item.(T); ok && o.Selectors.match(owner, set) {
			do(owner)
		}
	}
}

// Dependents maps events of dependents of one kind to their owners.
type Dependents[T, D metav1.Object] struct {
	Owners *Owners[T]
	// Enqueue enqueues an owner because of a dependent. Default: Owners.Enqueue.
	Enqueue func(lane reconcile.Lane, owner T)
	// Matters reports whether an update is relevant to the owner. Default: every new version
	// is.
	Matters func(old, dependent D) bool
	// OnUpdate is called with the owner that an update has enqueued. Optional.
	OnUpdate func(owner T, old, dependent D)
	// IgnoreOwnedAdds ignores the addition of a dependent that has an owner.
	IgnoreOwnedAdds bool
}

// Watch adds the handlers to the informer of the dependents.
func (d Dependents[T, D]) Watch(informer cache.SharedIndexInformer) {
	watch.Objects(informer, watch.Funcs[D]{
		Only:   func(dependent D) bool { return d.Owners.MayOwn(dependent) },
		Add:    d.Added,
		Update: d.Updated,
		Delete: d.Deleted,
	})
}

// Added handles a new dependent. After a restart of the watch, its deletion may have begun before it
// is first seen.
func (d Dependents[T, D]) Added(lane reconcile.Lane, dependent D) {
	switch {
	case dependent.GetDeletionTimestamp() != nil:
		d.enqueueOwner(lane, dependent)
	case metav1.GetControllerOfNoCopy(dependent) == nil:
		d.enqueueMatching(lane, dependent)
	case !d.IgnoreOwnedAdds:
		d.enqueueOwner(lane, dependent)
	}
}

// Updated handles a change of a dependent. After a restart of the watch, it may be another one of the same name.
func (d Dependents[T, D]) Updated(lane reconcile.Lane, old, dependent D) {
	if old.GetResourceVersion() == dependent.GetResourceVersion() || d.Matters != nil && !d.Matters(old, dependent) {
		return
	}
	moved := !SameController(old, dependent)
	if moved {
		d.enqueueOwner(lane, old)
	}
	switch {
	case metav1.GetControllerOfNoCopy(dependent) != nil:
		if owner, ok := d.enqueueOwner(lane, dependent); ok && d.OnUpdate != nil {
			d.OnUpdate(owner, old, dependent)
		}
	case dependent.GetDeletionTimestamp() != nil:
		// No owner may adopt it.
	case moved || old.GetUID() != dependent.GetUID() || !maps.Equal(old.GetLabels(), dependent.GetLabels()):
		d.enqueueMatching(lane, dependent)
	}
}

// Deleted handles the deletion of a dependent.
func (d Dependents[T, D]) Deleted(dependent D) { d.enqueueOwner(reconcile.Gone(dependent), dependent) }

// enqueueOwner enqueues the owner that controls a dependent, if there is one.
func (d Dependents[T, D]) enqueueOwner(lane reconcile.Lane, dependent D) (T, bool) {
	owner, ok := d.Owners.Of(dependent)
	if ok {
		d.enqueue(lane, owner)
	}
	return owner, ok
}

// enqueueMatching enqueues every owner that might adopt an orphan.
func (d Dependents[T, D]) enqueueMatching(lane reconcile.Lane, orphan D) {
	d.Owners.matching(orphan, func(owner T) { d.enqueue(lane, owner) })
}

func (d Dependents[T, D]) enqueue(lane reconcile.Lane, owner T) {
	if d.Enqueue != nil {
		d.Enqueue(lane, owner)
		return
	}
	d.Owners.Enqueue(lane, owner)
}
