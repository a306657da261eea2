package podgc

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/pods"
)

// maxConcurrent bounds the pods that are deleted concurrently.
const maxConcurrent = 20

// Why a pod is deleted, as in the metrics.
const (
	reasonTerminated   = "terminated"
	reasonOutOfService = "out-of-service"
	reasonOrphaned     = "orphaned"
	reasonUnscheduled  = "unscheduled"
)

// deleteAll deletes pods, started in order. It returns when all are done, or, once ctx has
// ended, those that were started.
func (gc *podGC) deleteAll(ctx, working context.Context, list []*corev1.Pod, reason string) {
	concurrent.Each(len(list), maxConcurrent, func(i int) {
		if ctx.Err() != nil {
			return
		}
		pod := list[i]
		if gc.Pauses.Hold(pod.Namespace) || gc.isBack(pod.Spec.NodeName, reason) {
			return
		}
		// Before the phase is set: the owner of a failed pod replaces it.
		working, deletion, err := gc.Deletions.Ask(working, corev1.Resource("pods"), pod.Namespace, pod.Name)
		if err != nil {
			klog.FromContext(working).V(2).Info("Not deleting a pod", "pod", klog.KObj(pod), "reason", reason, "err", err)
			return
		}
		defer deletion.End()
		gc.metrics.deleted.WithLabelValues(pod.Namespace, reason).Inc()
		if err := gc.delete(working, pod, reason); err != nil {
			gc.metrics.failed.WithLabelValues(pod.Namespace, reason).Inc()
			klog.FromContext(working).Error(err, "Failed to delete a pod, retrying in a later pass",
				"pod", klog.KObj(pod), "reason", reason)
		}
	})
}

// isBack reports whether the cache shows by now that the pods of a node are not to be deleted for a reason. A pass over
// many pods takes minutes.
func (gc *podGC) isBack(name, reason string) bool {
	switch reason {
	case reasonOrphaned:
		return gc.isShown(name)
	case reasonOutOfService:
		node, err := gc.nodes.Get(name)
		return err == nil && !isOutOfService(node)
	}
	return false
}

// delete deletes a pod without a grace period. The cache may be late, and another pod may have its
// name by now: then both requests are refused.
func (gc *podGC) delete(ctx context.Context, pod *corev1.Pod, reason string) error {
	klog.FromContext(ctx).V(2).Info("Deleting pod", "pod", klog.KObj(pod), "reason", reason)
	if !pods.IsTerminal(pod) {
		if err := gc.fail(ctx, pod, reason); err != nil {
			return fmt.Errorf("setting the phase of pod %s/%s to Failed: %w", pod.Namespace, pod.Name, err)
		}
	}
	if err := pods.Delete(ctx, gc.Client, pod, ptr.To(int64(0))); err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// fail sets the phase of a pod that no kubelet will finish to Failed.
func (gc *podGC) fail(ctx context.Context, pod *corev1.Pod, reason string) error {
	patch, err := pods.StatusPatch(pod, failedStatus(pod, reason, gc.Clock.Now()), metav1.ObjectMeta{UID: pod.UID})
	if err != nil {
		return err
	}
	return pods.PatchStatus(ctx, gc.Client, pod, patch)
}

// failedStatus returns the status of a pod that is about to be deleted. That of an orphaned pod
// has a condition that pod failure policies can match.
func failedStatus(pod *corev1.Pod, reason string, now time.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase = corev1.PodFailed
	status.ObservedGeneration = pod.Generation
	if reason == reasonOrphaned {
		setCondition(&status, corev1.PodCondition{
			Type:               corev1.DisruptionTarget,
			Status:             corev1.ConditionTrue,
			Reason:             "DeletionByPodGC",
			Message:            "PodGC: node no longer exists",
			ObservedGeneration: pod.Generation,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
	return status
}

// setCondition adds or replaces a condition. The transition time is kept if the status is the
// same.
func setCondition(status *corev1.PodStatus, condition corev1.PodCondition) {
	for n := range status.Conditions {
		old := &status.Conditions[n]
		if old.Type != condition.Type {
			continue
		}
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		condition.LastProbeTime = old.LastProbeTime
		*old = condition
		return
	}
	status.Conditions = append(status.Conditions, condition)
}
