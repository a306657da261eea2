package statefulset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// countStatus computes the status of a set from its pods. Pods that are being deleted count,
// but not as current or updated ones.
func countStatus(
	set *appsv1.StatefulSet, at revisions, observed []*corev1.Pod, now time.Time,
) appsv1.StatefulSetStatus {
	status := appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation,
		CurrentRevision:    at.current.Name,
		UpdateRevision:     at.update.Name,
		CollisionCount:     ptr.To(at.collisions),
	}
	for _, pod := range observed {
		if !isCreated(pod) {
			continue
		}
		status.Replicas++
		if isRunningAndReady(pod) {
			status.ReadyReplicas++
		}
		if isAvailable(set, pod, now) {
			status.AvailableReplicas++
		}
		if pod.DeletionTimestamp != nil {
			continue
		}
		if revisionOf(pod) == at.current.Name {
			status.CurrentReplicas++
		}
		if revisionOf(pod) == at.update.Name {
			status.UpdatedReplicas++
		}
	}
	return status
}

// completed returns the status with the update revision as the current one if the rolling
// update is complete.
func completed(set *appsv1.StatefulSet, status appsv1.StatefulSetStatus) appsv1.StatefulSetStatus {
	if set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
		status.UpdatedReplicas == status.Replicas &&
		status.ReadyReplicas == status.Replicas &&
		int(status.Replicas) == replicasOf(set) {
		status.CurrentReplicas = status.UpdatedReplicas
		status.CurrentRevision = status.UpdateRevision
	}
	return status
}

// differs reports whether a status differs from the stored one.
func differs(next, stored *appsv1.StatefulSetStatus) bool {
	return next.ObservedGeneration > stored.ObservedGeneration ||
		next.Replicas != stored.Replicas ||
		next.CurrentReplicas != stored.CurrentReplicas ||
		next.ReadyReplicas != stored.ReadyReplicas ||
		next.UpdatedReplicas != stored.UpdatedReplicas ||
		next.AvailableReplicas != stored.AvailableReplicas ||
		next.CurrentRevision != stored.CurrentRevision ||
		next.UpdateRevision != stored.UpdateRevision
}

// isUrgent reports whether somebody may be waiting for a status: because a change of the spec
// was observed, a revision changed, a count reached its final value, or pods are no longer ready or available though
// all were. Without settings for rolling updates the next reconcile depends on it.
func isUrgent(set *appsv1.StatefulSet, next *appsv1.StatefulSetStatus) bool {
	stored, desired := &set.Status, replicasOf(set)
	reached := func(was, is int32, goals ...int) bool {
		for _, goal := range goals {
			if was != is && int(is) == goal {
				return true
			}
		}
		return false
	}
	lost := func(was, is int32) bool { return int(was) == desired && is < was }
	return next.ObservedGeneration != stored.ObservedGeneration ||
		next.CurrentRevision != stored.CurrentRevision ||
		next.UpdateRevision != stored.UpdateRevision ||
		set.Spec.UpdateStrategy.RollingUpdate == nil && next.CurrentReplicas != stored.CurrentReplicas ||
		reached(stored.Replicas, next.Replicas, desired) ||
		reached(stored.ReadyReplicas, next.ReadyReplicas, desired) ||
		reached(stored.AvailableReplicas, next.AvailableReplicas, desired) ||
		lost(stored.ReadyReplicas, next.ReadyReplicas) ||
		lost(stored.AvailableReplicas, next.AvailableReplicas) ||
		reached(stored.UpdatedReplicas, next.UpdatedReplicas, desired, desired-partitionOf(set)) ||
		reached(stored.CurrentReplicas, next.CurrentReplicas, desired, partitionOf(set))
}

// report updates the status of a set, after a short delay if the change is not urgent. It
// returns the name of the current revision as stored.
func (c *statefulSetController) report(
	ctx context.Context, set *appsv1.StatefulSet, status appsv1.StatefulSetStatus,
) (current string, err error) {
	status = completed(set, status)
	if !differs(&status, &set.Status) {
		return set.Status.CurrentRevision, nil
	}
	if !isUrgent(set, &status) && c.owners.PutOff(set, status, writes.CountsWindow) {
		return set.Status.CurrentRevision, nil
	}
	if err := c.writeStatus(ctx, set, status); err != nil {
		return set.Status.CurrentRevision, err
	}
	return status.CurrentRevision, nil
}

// writeStatus updates the status. On a conflict it retries with the live object, with five
// attempts in total.
func (c *statefulSetController) writeStatus(
	ctx context.Context, set *appsv1.StatefulSet, status appsv1.StatefulSetStatus,
) error {
	klog.FromContext(ctx).V(4).Info("Updating status", "statefulSet", klog.KObj(set), "status", status)
	client := c.Client.AppsV1().StatefulSets(set.Namespace)
	base, conflicted := set, false
	return requests.RetryOnConflict(retry.DefaultRetry, func() error {
		if conflicted {
			live, err := client.Get(ctx, set.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if live.UID != set.UID {
				return reconcile.Requeue(fmt.Errorf("%s was recreated: got uid %s, wanted %s", klog.KObj(set), live.UID, set.UID))
			}
			base = live
		}
		conflicted = true
		changed := *base
		changed.Status = status
		written, err := client.UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		c.owners.WroteStatus(set, written)
		return nil
	})
}

// checkAvailability enqueues a set for when its next pod becomes available.
func (c *statefulSetController) checkAvailability(
	set *appsv1.StatefulSet, status *appsv1.StatefulSetStatus, members []*corev1.Pod, asOf time.Time,
) {
	minReady := set.Spec.MinReadySeconds
	if minReady <= 0 || status.ReadyReplicas == status.AvailableReplicas {
		return
	}
	after, ok := pods.NextAvailabilityCheck(members, minReady, asOf, c.Clock)
	if !ok {
		after = time.Duration(minReady) * time.Second
	}
	c.owners.EnqueueAfter(set, after)
}
