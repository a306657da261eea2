// Package watch turns the untyped notifications of informers into typed ones.
//
//  1. Objects arrive with their type; tombstones are unwrapped.
//  2. Each add and update says which lane its keys belong in: what was replayed from
//     the cache or resynced is backlog, everything else is fresh.
//  3. Objects of another type are logged and dropped.
package watch

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Funcs are called for the objects of an informer, one at a time. Nil functions are skipped.
type Funcs[T metav1.Object] struct {
	// Add is called for a new object, and for every object in the cache when the
	// handler is added.
	Add func(lane reconcile.Lane, obj T)
	// Update is called for every change, and with old and new alike on a resync.
	Update func(lane reconcile.Lane, old, new T)
	// Delete is called with the last known state of an object that is gone.
	Delete func(obj T)
}

// Objects calls funcs for the objects of an informer, resynced at the period of the controller.
func Objects[T metav1.Object](informer cache.SharedIndexInformer, funcs Funcs[T]) error {
	_, err := informer.AddEventHandler(handler[T]{funcs})
	return wrap[T](err)
}

// ObjectsEvery is Objects with a resync period of its own; zero means no resync.
func ObjectsEvery[T metav1.Object](informer cache.SharedIndexInformer, resync time.Duration, funcs Funcs[T]) error {
	_, err := informer.AddEventHandlerWithResyncPeriod(handler[T]{funcs}, resync)
	return wrap[T](err)
}

func wrap[T any](err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("adding a handler for %T: %w", *new(T), err)
}

type handler[T metav1.Object] struct{ funcs Funcs[T] }

func (h handler[T]) OnAdd(obj any, isInInitialList bool) {
	typed, ok := as[T](obj)
	if !ok || h.funcs.Add == nil {
		return
	}
	lane := reconcile.Fresh
	if isInInitialList {
		lane = reconcile.Backlog
	}
	h.funcs.Add(lane, typed)
}

func (h handler[T]) OnUpdate(old, new any) {
	was, okOld := as[T](old)
	is, okNew := as[T](new)
	if !okOld || !okNew || h.funcs.Update == nil {
		return
	}
	lane := reconcile.Fresh
	if was.GetResourceVersion() == is.GetResourceVersion() {
		lane = reconcile.Backlog
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
