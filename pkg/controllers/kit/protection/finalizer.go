// Package protection contains the code shared by controllers that keep an object from being deleted
// while it is in use.
//
// The model, in rules:
//
//  1. A finalizer protects an object. The API server adds it on creation. If it is missing, the
//     controller adds it, unless the object is being deleted.
//  2. The finalizer blocks the deletion of an object. The controller removes it once the object is
//     no longer in use. Each controller defines what "in use" means for its kind.
//  3. The controller adds and removes the finalizer by updating the object that it based its
//     decision on, with the same UID and resource version. If the object has changed or was
//     recreated, the API server rejects the update, and the controller retries the key.
//  4. Only a live list of pods proves that no pod uses an object (EachPod). The list must start
//     after the deletion of the object. A cache may lack a pod that was created just before.
package protection

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finalizer protects the objects of a kind.
type Finalizer string

// IsMissing reports whether the finalizer must be added to an object.
func (f Finalizer) IsMissing(object metav1.Object) bool {
	return object.GetDeletionTimestamp() == nil && !f.isOn(object)
}

// Blocks reports whether an object is being deleted and has the finalizer.
func (f Finalizer) Blocks(object metav1.Object) bool {
	return object.GetDeletionTimestamp() != nil && f.isOn(object)
}

// Concerns reports whether the finalizer of an object may have to be added or removed.
func (f Finalizer) Concerns(object metav1.Object) bool {
	return f.IsMissing(object) || f.Blocks(object)
}

func (f Finalizer) isOn(object metav1.Object) bool {
	return slices.Contains(object.GetFinalizers(), string(f))
}

// Object is a pointer to an API object.
type Object[T any] interface {
	metav1.Object
	DeepCopy() T
}

// Update is the method Update of a typed client.
type Update[T any] func(context.Context, T, metav1.UpdateOptions) (T, error)

// Add appends the finalizer to those of an object.
func Add[T Object[T]](ctx context.Context, f Finalizer, object T, update Update[T]) error {
	object = object.DeepCopy()
	object.SetFinalizers(append(object.GetFinalizers(), string(f)))
	_, err := update(ctx, object, metav1.UpdateOptions{})
	return err
}

// Remove removes the finalizer from an object and keeps the order of the others.
func Remove[T Object[T]](ctx context.Context, f Finalizer, object T, update Update[T]) error {
	object = object.DeepCopy()
	others := slices.DeleteFunc(object.GetFinalizers(), func(name string) bool { return name == string(f) })
	if len(others) == 0 {
		others = nil
	}
	object.SetFinalizers(others)
	_, err := update(ctx, object, metav1.UpdateOptions{})
	return err
}
