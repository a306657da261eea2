package pods

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/slowstart"
)

// Resource is the resource under which a tracker knows pods.
var Resource = schema.GroupResource{Group: corev1.GroupName, Resource: "pods"}

// Tracked is a Control whose writes a tracker remembers until the caches show them.
type Tracked struct {
	Control
	Tracker *expectations.Tracker
}

// errNamespaceGoing ends a slow start: no create in that namespace will succeed.
var errNamespaceGoing = errors.New("the namespace is being deleted")

// CreateAll creates n pods of the owner in a slow start, the i-th from template(i), which
// must be safe for concurrent use. It returns what failed. That the namespace is being
// deleted is no failure: the owner, which will be deleted too, holds still.
func (t Tracked) CreateAll(ctx context.Context, owner Owner, ref *metav1.OwnerReference, n int, template func(i int) *corev1.PodTemplateSpec) []error {
	return t.CreateEach(ctx, owner, n, func(ctx context.Context, i int) (*corev1.Pod, error) {
		return t.Create(ctx, owner, template(i), ref)
	})
}

// CreateEach is CreateAll with what creates the i-th pod.
func (t Tracked) CreateEach(ctx context.Context, owner Owner, n int, create func(ctx context.Context, i int) (*corev1.Pod, error)) []error {
	_, errs := slowstart.Do(ctx, n, 0, func(ctx context.Context, i int) error {
		pod, err := create(ctx, i)
		if NamespaceTerminating(err) {
			return errNamespaceGoing
		}
		if err != nil {
			return err
		}
		t.Tracker.Wrote(keyOf(owner), owner.GetUID(), Resource, pod.ResourceVersion)
		return nil
	})
	var failures []error
	for _, err := range errs {
		if errors.Is(err, errNamespaceGoing) {
			t.Tracker.Hold(keyOf(owner), owner.GetUID(), expectations.Timeout)
			continue
		}
		failures = append(failures, err)
	}
	return failures
}

// DeleteAll deletes pods of the owner all at once and returns what failed. That a pod is
// gone already is no failure.
func (t Tracked) DeleteAll(ctx context.Context, owner Owner, victims []*corev1.Pod) []error {
	for _, pod := range victims {
		t.Tracker.Deleting(keyOf(owner), owner.GetUID(), Resource, pod)
	}
	return slowstart.All(ctx, 0, len(victims), func(ctx context.Context, i int) error {
		pod := victims[i]
		err := t.Delete(ctx, owner, pod.Namespace, pod.Name)
		if apierrors.IsNotFound(err) {
			return nil // the cache has yet to show it
		}
		if err != nil {
			t.Tracker.DeleteFailed(keyOf(owner), Resource, pod)
		}
		return err
	})
}

// PatchFor returns what sends the adoptions and releases of the owner's ownership.Claimer.
func (t Tracked) PatchFor(owner Owner) func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
	return func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
		patched, err := t.Patch(ctx, pod.Namespace, pod.Name, patch)
		if err != nil {
			return err
		}
		t.Patched(owner, patched)
		return nil
	}
}

// Patched records that a patch for the owner returned the pod. What the owner does not
// control after it is not waited for.
func (t Tracked) Patched(owner Owner, pod *corev1.Pod) {
	if metav1.IsControlledBy(pod, owner) {
		t.Tracker.Wrote(keyOf(owner), owner.GetUID(), Resource, pod.ResourceVersion)
	}
}

func keyOf(owner Owner) types.NamespacedName {
	return types.NamespacedName{Namespace: owner.GetNamespace(), Name: owner.GetName()}
}
