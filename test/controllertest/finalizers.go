package controllertest

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// refuseNewFinalizers makes a fake API server refuse updates and patches that add a finalizer to an object that is
// being deleted, as a real one does. It holds the lock while it reads an object, patches it and writes it.
func refuseNewFinalizers(server *clienttesting.Fake, tracker clienttesting.ObjectTracker, storing sync.Locker) {
	answer := clienttesting.ObjectReaction(finalizing{tracker})
	write := func(action clienttesting.Action) (bool, runtime.Object, error) {
		storing.Lock()
		defer storing.Unlock()
		return answer(action)
	}
	server.PrependReactor("update", "*", write)
	server.PrependReactor("patch", "*", write)
}

// finalizing is a tracker that checks the finalizers of what it is to store.
type finalizing struct{ clienttesting.ObjectTracker }

// Update implements clienttesting.ObjectTracker.
func (f finalizing) Update(resource schema.GroupVersionResource, object runtime.Object, namespace string, options ...metav1.UpdateOptions) error {
	if err := f.check(resource, object, namespace); err != nil {
		return err
	}
	return f.ObjectTracker.Update(resource, object, namespace, options...)
}

// Patch implements clienttesting.ObjectTracker. The object is patched already.
func (f finalizing) Patch(resource schema.GroupVersionResource, object runtime.Object, namespace string, options ...metav1.PatchOptions) error {
	if err := f.check(resource, object, namespace); err != nil {
		return err
	}
	return f.ObjectTracker.Patch(resource, object, namespace, options...)
}

func (f finalizing) check(resource schema.GroupVersionResource, object runtime.Object, namespace string) error {
	after, err := meta.Accessor(object)
	if err != nil {
		return fmt.Errorf("a %T has no metadata: %w", object, err)
	}
	stored, err := f.Get(resource, namespace, after.GetName())
	if err != nil {
		return err
	}
	before, err := meta.Accessor(stored)
	if err != nil || before.GetDeletionTimestamp() == nil {
		return err
	}
	at := field.NewPath("metadata", "finalizers")
	if problems := validation.ValidateNoNewFinalizers(after.GetFinalizers(), before.GetFinalizers(), at); len(problems) > 0 {
		return apierrors.NewInvalid(groupKindOf(stored), after.GetName(), problems)
	}
	return nil
}

// groupKindOf is the kind of an object.
func groupKindOf(object runtime.Object) schema.GroupKind {
	if kinds, _, err := scheme.Scheme.ObjectKinds(object); err == nil {
		return kinds[0].GroupKind()
	}
	return object.GetObjectKind().GroupVersionKind().GroupKind()
}
