// Package watch turns the untyped notifications of informers into typed ones.
//
//  1. Handlers receive typed objects; tombstones are unwrapped.
//  2. Each add and update comes with the lane for its keys: Backlog if it was replayed from the
//     cache or resynced, Fresh otherwise. The lane names the object, as the reason for the key.
//  3. Objects of another type are logged and dropped.
//  4. If an informer rejects a handler, its scope records the error, which fails the New of the
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
type Funcs[T metav1.Object] struct {
	// Add is called for a new object, and for every object in the cache when the
	// handler is added.
	Add func(lane reconcile.Lane, obj T)
	// Update is called for every change, and on a resync with the same object twice.
	Update func(lane reconcile.Lane, old, new T)
	// Delete is called with the last known state of a deleted object.
	Delete func(obj T)
}

// Objects adds the handlers to an informer, with the resync period of the controller.
func Objects[T metav1.Object](informer cache.SharedIndexInformer, funcs Funcs[T]) {
	_, _ = informer.AddEventHandler(Handler(funcs)) // see rule 4
}

// ObjectsEvery is like Objects, with the given resync period; zero means no resync.
func ObjectsEvery[T metav1.Object](informer cache.SharedIndexInformer, resync time.Duration, funcs Funcs[T]) {
	_, _ = informer.AddEventHandlerWithResyncPeriod(Handler(funcs), resync) // see rule 4
}

// Handler returns the handlers for a caller that adds them to an informer itself, because it needs
// to know when they have been shown all objects.
func Handler[T metav1.Object](funcs Funcs[T]) cache.ResourceEventHandler { return handler[T]{funcs} }

type handler[T metav1.Object] struct{ funcs Funcs[T] }

func (h handler[T]) OnAdd(obj any, isInInitialList bool) {
	typed, ok := as[T](obj)
	if !ok || h.funcs.Add == nil {
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
	if !okOld || !okNew || h.funcs.Update == nil {
		return
	}
	lane := reconcile.Fresh.Because(reconcile.Updated, is)
	if was.GetResourceVersion() == is.GetResourceVersion() {
		lane = reconcile.Backlog.Because(reconcile.Resynced, is)
	}
	h.funcs.Update(lane, was, is)
}

func (h handler[T]) OnDelete(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	typed, ok := as[T](obj)
	if !ok || h.funcs.Delete == nil {
		return
	}
	h.funcs.Delete(typed)
}

func as[T any](obj any) (T, bool) {
	typed, ok := obj.(T)
	if !ok {
		klog.Background().Error(nil, "Dropping a notification for an object of an unexpected type", "got", fmt.Sprintf("%T", obj), "want", fmt.Sprintf("%T", typed))
	}
	return typed, ok
}
