package disruption

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// staleTimeout is how long a pod may be marked for deletion without being deleted.
const staleTimeout = 2 * time.Minute

// reconcileStale resets the condition of a pod that was not deleted after all.
func (c *disruptionController) reconcileStale(ctx context.Context, key types.NamespacedName) error {
	pod, found, err := reconcile.Found(c.pods.Pods(key.Namespace).Get(key.Name))
	if !found {
		return err
	}
	now := c.Clock.Now()
	wait, candidate := untilStale(pod, now)
	if !candidate {
		return nil
	}
	if wait > 0 {
		c.staleQueue.AddAfter(key, wait)
		return nil
	}
	patch, err := unmarking(pod, now)
	if err != nil {
		return fmt.Errorf("making the patch of pod %s: %w", key, err)
	}
	err = pods.PatchStatus(ctx, c.Client, pod, patch)
	switch {
	case apierrors.IsNotFound(err): // deleted after all, unless this is the answer of an admission webhook
		c.staleQueue.AddAfter(key, reconcile.RecheckAfter)
		return nil
	case err != nil:
		return fmt.Errorf("resetting the condition %s of pod %s: %w", corev1.DisruptionTarget, key, err)
	}
	klog.FromContext(ctx).V(2).Info("Reset stale condition of pod", "pod", key, "condition", corev1.DisruptionTarget)
	return nil
}

// untilStale returns the delay until the condition DisruptionTarget of a pod is stale, 0 if it
// is. It returns false if the condition cannot become stale: a kubelet deletes the pods that it
// marks.
func untilStale(pod *corev1.Pod, now time.Time) (time.Duration, bool) {
	if pod.DeletionTimestamp != nil || pods.IsTerminal(pod) {
		return 0, false
	}
	mark := markOf(&pod.Status)
	if mark == nil || mark.Status != corev1.ConditionTrue || mark.Reason == corev1.PodReasonTerminationByKubelet {
		return 0, false
	}
	return max(0, staleTimeout-now.Sub(mark.LastTransitionTime.Time)), true
}

// markOf returns the condition DisruptionTarget, nil if there is none.
func markOf(status *corev1.PodStatus) *corev1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == corev1.DisruptionTarget {
			return &status.Conditions[i]
		}
	}
	return nil
}

// unmarking returns the strategic merge patch that resets the condition, on condition that the
// pod has not changed. It is a patch because cached pods are incomplete.
func unmarking(pod *corev1.Pod, now time.Time) ([]byte, error) {
	status := pod.Status.DeepCopy()
	mark := markOf(status)
	mark.Status = corev1.ConditionFalse
	mark.Reason, mark.Message = "", ""
	mark.ObservedGeneration = pod.Generation
	mark.LastTransitionTime = metav1.NewTime(now)
	return pods.StatusPatch(pod, *status, metav1.ObjectMeta{UID: pod.UID, ResourceVersion: pod.ResourceVersion})
}
