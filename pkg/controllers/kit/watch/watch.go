// Package watch turns the untyped notifications of informers into typed ones.
//
//  1. Handlers receive typed objects; tombstones are unwrapped. A tombstone is no proof of a deletion: see
//     Funcs.Missed.
//  2. Each add and update comes with the lane for its keys: Backlog if it was replayed from the
//     cache or resynced, Fresh otherwise. The lane names the object, as the reason for the key.
//  3. Objects of another type are logged and dropped.
//  4. A notification that Funcs have no function for, or do not want, does not wake up the goroutine
//     of the handler.
//  5. If an informer rejects a handler, its scope records the error, which fails the New of the
//     controller; it need not be checked here.
package watch

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Funcs are the handlers of an informer, called one at a time. Nil functions are skipped.
//
// Only and UpdateIf are called by the informer. They have to be quick, depend on nothing but the objects, and not
// block.
type Funcs[T metav1.Object] struct {
	// Only reports whether an object matters at all. An update is skipped if neither version does. Nil means that
	// all do.
	Only func(obj T) bool
	// UpdateIf reports whether an update matters, or a resync, which has the same object as old and new. Nil means
	// that all do.
	UpdateIf func(old, new T) bool
	// Add is called for a new object, and for every object in the cache when the
	// handler is added.
	Add func(lane reconcile.Lane, obj T)
	// Update is called for every change, and on a resync with the same object twice.
	Update func(lane reconcile.Lane, old, new T)
	// AddOrUpdate is Add and Update in one, where the old state does not matter. Only without these two.
	AddOrUpdate func(lane reconcile.Lane, obj T)
	// Delete is called with the last known state of a deleted object.
	Delete func(obj T)
	// Missed is called instead of Delete for an object that a list after a break of the watch lacked, with the state
	// that was seen last. It may exist: the watch cache of an API server that loses events, or is behind after a
	// restore, lacks objects that are there. Set it if a deletion leads to something irreversible, or saves a live
	// read. Add is called if the object shows up again. Nil means Delete.
	Missed func(obj T)
}

// Objects adds the handlers to an informer, with the resync period of the controller.
func Objects[T metav1.Object](informer cache.SharedIndexInformer, funcs Funcs[T]) {
	_, _ = informer.AddEventHandler(Handler(funcs)) // see rule 5
}

// ObjectsEvery is like Objects, with the given resync period; zero means no resync.
func ObjectsEvery[T metav1.Object](informer cache.SharedIndexInformer, resync time.Duration, funcs Funcs[T]) {
	_, _ = informer.AddEventHandlerWithResyncPeriod(Handler(funcs), resync) // see rule 5
}

// Handler returns the handlers for a caller that adds them to an informer itself, because it needs
// to know when they have received all objects.
func Handler[T metav1.Object](funcs Funcs[T]) cache.ResourceEventHandler {
	if both := funcs.AddOrUpdate; both != nil {
		funcs.Add = both
		funcs.Update = func(lane reconcile.Lane, _, obj T) { both(lane, obj) }
	}
	return handler[T]{funcs}
}

type handler[T metav1.Object] struct{ funcs Funcs[T] }

func (h handler[T]) OnAdd(obj any, isInInitialList bool) {
	typed, ok := as[T](obj)
	if !ok || !h.WantsAdd(obj) {
		return
	}
	lane := reconcile.Fresh.Because(reconcile.Added, typed)
	if isInInitialList {
		lane = reconcile.Backlog.Because(reconcile.Replayed, typed)
	}
	h.funcs.Add(lane, typed)
}

func (h handler[T]) OnUpdate(old, new any) {
	was, okOld := as[T](old)
	is, okNew := as[T](new)
	if !okOld || !okNew || !h.WantsUpdate(old, new) {
		return
	}
	lane := reconcile.Fresh.Because(reconcile.Updated, is)
	switch {
	case was.GetUID() != is.GetUID():
		lane = reconcile.Fresh.Because(reconcile.Added, is) // the other one was deleted while the watch was interrupted
	case was.GetResourceVersion() == is.GetResourceVersion():
		lane = reconcile.Backlog.Because(reconcile.Resynced, is)
	}
	h.funcs.Update(lane, was, is)
}

func (h handler[T]) OnDelete(obj any) {
	last, call := h.deletion(obj)
	typed, ok := as[T](last)
	if !ok || call == nil || !h.concerns(last) {
		return
	}
	call(typed)
}

// deletion returns the last known state of a deleted object, and the function to call with it, nil if there is none.
func (h handler[T]) deletion(obj any) (last any, call func(T)) {
	tombstone, missed := obj.(cache.DeletedFinalStateUnknown)
	switch {
	case !missed:
		return obj, h.funcs.Delete
	case h.funcs.Missed == nil:
		return tombstone.Obj, h.funcs.Delete
	}
	return tombstone.Obj, h.funcs.Missed
}

// WantsAdd implements informers.Selective.
func (h handler[T]) WantsAdd(obj any) bool { return h.funcs.Add != nil && h.concerns(obj) }

// WantsUpdate implements informers.Selective.
func (h handler[T]) WantsUpdate(old, new any) bool {
	if h.funcs.Update == nil || !h.concerns(new) && !h.concerns(old) {
		return false
	}
	was, okOld := old.(T)
	is, okNew := new.(T)
	return h.funcs.UpdateIf == nil || !okOld || !okNew || h.funcs.UpdateIf(was, is)
}

// WantsDelete implements informers.Selective.
func (h handler[T]) WantsDelete(obj any) bool {
	last, call := h.deletion(obj)
	return call != nil && h.concerns(last)
}

// concerns reports whether an object matters. One of another type does: the handler logs it.
func (h handler[T]) concerns(obj any) bool {
	typed, ok := obj.(T)
	return h.funcs.Only == nil || !ok || h.funcs.Only(typed)
}

func as[T any](obj any) (T, bool) {
	typed, ok := obj.(T)
	if !ok {
		klog.Background().Error(nil, "Dropping a notification for an object of an unexpected type",
			"got", fmt.Sprintf("%T", obj), "want", fmt.Sprintf("%T", typed))
	}
	return typed, ok
}
