package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/pkg/controllers/kit/slowstart"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// Resource is the resource of pods in a writes.Memory.
var Resource = schema.GroupResource{Group: corev1.GroupName, Resource: "pods"}

// Tracked creates, deletes and patches pods, and remembers its writes until the caches show them.
type Tracked struct {
	// Untracked sends requests that are not remembered.
	Untracked Control
	Writes    *writes.Memory
	// Counts reports whether the owner counts a pod of which this metadata was stored. Default: every pod.
	Counts func(owner, pod metav1.Object) bool
}

// NewTracked returns a Tracked that acts as the instance and remembers its writes in memory.
func NewTracked(env controller.Env, memory *writes.Memory) Tracked {
	return Tracked{Untracked: Control{env}, Writes: memory}
}

// errNamespaceGoing ends a slow start: no create in that namespace will succeed.
var errNamespaceGoing = errors.New("the namespace is being deleted")

// CreateAll creates n pods of the owner in a slow start, the i-th from template(i), which must
// be safe for concurrent use. It returns the errors. It is no error if the namespace is being
// deleted: the owner, which will be deleted too, is put on hold. If a pod may have been created
// although the request failed, nothing is created for the owner for reconcile.RecheckAfter, so that
// no other takes its place: meanwhile calls return a reconcile.AwaitCache of writes.ErrUncertain.
func (t Tracked) CreateAll(
	ctx context.Context, owner Owner, ref *metav1.OwnerReference, n int, template func(i int) *corev1.PodTemplateSpec,
) []error {
	return t.CreateEach(ctx, owner, n, func(ctx context.Context, i int) (*metav1.ObjectMeta, error) {
		return t.CreateNamed(ctx, owner, template(i), ref, NamePrefix(owner.GetName()))
	})
}

// CreateNamed is Control.CreateNamed. A pod that is stored such that its owner does not count it, since an admission
// webhook has changed it, is deleted, and that is a failure: the owner would have another one made for it, and so on.
// CreateEach lets some time pass before the next.
func (t Tracked) CreateNamed(
	ctx context.Context, owner Owner, template *corev1.PodTemplateSpec, ref *metav1.OwnerReference, prefix string,
) (*metav1.ObjectMeta, error) {
	pod, err := t.Untracked.CreateNamed(ctx, owner, template, ref, prefix)
	if err != nil || t.Counts == nil || t.Counts(owner, pod) {
		return pod, err
	}
	err = fmt.Errorf("pod %q was stored with other labels, annotations or finalizers than were sent, so that it does not "+
		"count and is deleted; an admission webhook may change them", pod.Name)
	t.Untracked.RecordFailure(ctx, failedCreate(owner, err))
	if failure := t.Untracked.Delete(ctx, owner, &corev1.Pod{ObjectMeta: *pod}); failure != nil && !controller.Absent(failure) {
		klog.FromContext(ctx).Error(failure, "Failed to delete a pod that does not count", "owner", klog.KObj(owner), "pod", klog.KObj(pod))
	}
	return nil, err
}

// CreateEach is like CreateAll, with a function that creates the i-th pod.
func (t Tracked) CreateEach(
	ctx context.Context, owner Owner, n int, create func(ctx context.Context, i int) (*metav1.ObjectMeta, error),
) []error {
	if err := t.Writes.MayCreate(owner, ""); err != nil {
		return []error{err}
	}
	var uncertain atomic.Bool
	_, errs := slowstart.Do(ctx, n, 0, func(ctx context.Context, i int) error {
		pod, err := create(ctx, i)
		if NamespaceTerminating(err) {
			return errNamespaceGoing
		}
		if err != nil {
			if mayHaveCreated(err) {
				uncertain.Store(true)
			}
			return err
		}
		t.Writes.Wrote(owner, Resource, pod.ResourceVersion)
		return nil
	})
	if uncertain.Load() {
		t.Writes.CreateUncertain(owner, "", time.Time{})
	}
	isGoing := func(err error) bool { return errors.Is(err, errNamespaceGoing) }
	if slices.ContainsFunc(errs, isGoing) {
		t.Writes.Hold(owner, writes.Timeout)
	}
	return slices.DeleteFunc(errs, isGoing)
}

// mayHaveCreated reports whether there may be a pod although its creation failed.
func mayHaveCreated(err error) bool {
	var local unsent
	return !errors.As(err, &local) && requests.MayHaveCreated(err)
}

// DeleteAll deletes pods of the owner concurrently and returns the errors. It is no error if a
// pod does not exist. Conflicts are returned only if nothing else failed, see Failures.
func (t Tracked) DeleteAll(ctx context.Context, owner Owner, victims []*corev1.Pod) []error {
	for _, pod := range victims {
		t.Writes.Deleting(owner, Resource, pod)
	}
	return Failures(slowstart.All(ctx, 0, len(victims), func(ctx context.Context, i int) error {
		pod := victims[i]
		err := t.Untracked.Delete(ctx, owner, pod)
		if controller.Absent(err) {
			return nil // the cache does not show it yet
		}
		if err != nil {
			t.DeleteFailed(owner, pod, err)
		}
		return err
	}))
}

// Failures returns the errors that are failures. If none is, it returns the reasons to requeue the owner.
func Failures(errs []error) []error {
	if failures := slices.DeleteFunc(slices.Clone(errs), reconcile.IsExpected); len(failures) > 0 {
		return failures
	}
	return errs
}

// DeleteFailed records the error of a deletion. If it does not tell whether the pod was deleted, the owner waits for
// a while to see it deleted, so that it does not delete another one instead.
func (t Tracked) DeleteFailed(owner Owner, pod *corev1.Pod, err error) {
	if requests.IsRefusal(err) {
		t.Writes.DeleteFailed(owner, Resource, pod)
	} else {
		t.Writes.DeleteUnanswered(owner, Resource, pod)
	}
}

// PatchFor returns the Patch function of the owner's owners.Claimer.
func (t Tracked) PatchFor(owner Owner) func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
	return func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
		patched, err := t.Untracked.Patch(ctx, pod.Namespace, pod.Name, patch)
		if err != nil {
			return err
		}
		t.Patched(owner, patched)
		return nil
	}
}

// Patched records that a patch for the owner returned the pod. A pod that the owner does not
// control afterwards is not waited for.
func (t Tracked) Patched(owner Owner, pod metav1.Object) {
	if metav1.IsControlledBy(pod, owner) {
		t.Writes.Wrote(owner, Resource, pod.GetResourceVersion())
	}
}
