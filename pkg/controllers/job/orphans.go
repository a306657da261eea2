package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// orphan is a key of the queue of orphans: a pod, or all pods that a selector matches.
type orphan struct {
	kind      orphanKind
	namespace string
	// value is the name of the pod, or the selector.
	value string
}

type orphanKind string

const (
	orphanPod      orphanKind = "name"
	orphanSelector orphanKind = "selector"
)

func (o orphan) String() string { return fmt.Sprintf("%s/%s %s", o.namespace, o.kind, o.value) }

// reconcileOrphan frees the pods of a key. It is called again while a pod must stay because of a
// Job that the cache does not show: there may be no event when that Job is deleted.
func (c *jobController) reconcileOrphan(ctx context.Context, key orphan) error {
	asked := map[types.UID]bool{}
	err := c.freeAll(ctx, key, asked)
	if slices.Contains(slices.Collect(maps.Values(asked)), true) {
		c.orphanQueue.AddAfter(key, reconcile.RecheckAfter)
	}
	return err
}

// freeAll frees the pods of a key. asked caches which Jobs want their pods, of those that were
// read live.
func (c *jobController) freeAll(ctx context.Context, key orphan, asked map[types.UID]bool) error {
	if key.kind == orphanSelector {
		return c.freeMatching(ctx, key, asked)
	}
	pod, err := c.podLister.Pods(key.namespace).Get(key.value)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading pod %s/%s: %w", key.namespace, key.value, err)
	}
	return c.free(ctx, pod, asked)
}

// maxListed is the number of errors of one search that are listed individually.
const maxListed = 10

// freeMatching frees the pods that a selector matches. A failure does not affect the other
// pods, but makes the search fail, so that it is repeated: a pod that has finished may have no further event.
func (c *jobController) freeMatching(ctx context.Context, key orphan, asked map[types.UID]bool) error {
	selector, err := labels.Parse(key.value)
	if err != nil {
		return fmt.Errorf("parsing the selector of orphans %q: %w", key.value, err)
	}
	left, err := c.trackedPods(key.namespace, selector)
	if err != nil {
		return err
	}
	var failures []error
	for _, pod := range left {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.free(ctx, pod, asked); err != nil {
			failures = append(failures, err)
		}
	}
	if more := len(failures) - maxListed; more > 0 {
		failures = append(failures[:maxListed], fmt.Errorf("and %d more", more))
	}
	return errors.Join(failures...)
}

// free removes the finalizer from a pod whose Job does not exist or has finished.
func (c *jobController) free(ctx context.Context, pod *corev1.Pod, asked map[types.UID]bool) error {
	if !isTracked(pod) {
		return nil
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		// A Job may have adopted it, which the cache does not show yet.
		_, err := c.patchFinalizer(ctx, pod, pod.ResourceVersion)
		return err
	}
	if !isJobRef(ref) {
		return nil
	}
	wanted, err := c.isWanted(ctx, pod, ref, asked)
	if err != nil || wanted {
		return err
	}
	_, err = c.patchFinalizer(ctx, pod, anyVersion)
	return err
}

// isWanted reports whether the Job of a pod still has to count it, by this or another
// controller. A Job that is not cached may be new, so it is read live: a pod that was freed is
// never counted.
func (c *jobController) isWanted(ctx context.Context, pod *corev1.Pod, ref *metav1.OwnerReference, asked map[types.UID]bool) (bool, error) {
	if job, ok := c.owners.Of(pod); ok {
		return c.countsPods(job), nil
	}
	if wanted, ok := asked[ref.UID]; ok {
		return wanted, nil
	}
	job, err := c.Client.BatchV1().Jobs(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil && !controller.Absent(err) {
		return false, fmt.Errorf("reading job %s/%s: %w", pod.Namespace, ref.Name, err)
	}
	wanted := err == nil && job.UID == ref.UID && c.countsPods(job)
	asked[ref.UID] = wanted
	return wanted, nil
}

func (c *jobController) countsPods(job *batchv1.Job) bool {
	return c.managedElsewhere(job) || !isFinished(job)
}

func isJobRef(ref *metav1.OwnerReference) bool {
	return ref.Kind == jobKind.Kind && ref.APIVersion == batchv1.SchemeGroupVersion.String()
}

// trackedPods returns the pods that match the selector of a Job and have the finalizer, except
// for those from which it was removed but the cache does not show it yet.
func (c *jobController) trackedPods(namespace string, selector labels.Selector) ([]*corev1.Pod, error) {
	matching, err := c.withFinalizer.matching(namespace, selector)
	if err != nil {
		return nil, err
	}
	left := matching[:0]
	for _, pod := range matching {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref != nil && c.memory.removals.has(types.NamespacedName{Namespace: namespace, Name: ref.Name}, pod.UID) {
			continue
		}
		left = append(left, pod)
	}
	return left, nil
}

// cachedPod returns a pod as cached, nil if there is none of that name.
func (c *jobController) cachedPod(name types.NamespacedName) *corev1.Pod {
	pod, err := c.podLister.Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return nil
	}
	return pod
}
