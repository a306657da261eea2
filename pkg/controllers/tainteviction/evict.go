package tainteviction

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// evict deletes a pod when its appointment is due. If the appointment was cancelled, there is nothing to do; if it was
// not due yet, the pod is enqueued again. NotFound as the answer to a write proves nothing, since an admission
// webhook may give it: the appointment ends when the cache shows that the pod is gone.
func (c *evictionController) evict(ctx context.Context, key identity) error {
	now := c.Clock.Now()
	if !c.isDue(key, now) {
		return nil
	}
	// Before the eviction is announced. What is not deleted after all is given back.
	ctx, deletion, err := c.Deletions.Ask(ctx, corev1.Resource("pods"), key.Namespace, key.Name)
	if err != nil {
		return err
	}
	defer deletion.End()
	made, first, ok := c.appointments.begin(key, now)
	if !ok {
		return nil // who has postponed it meanwhile enqueues it
	}
	if first {
		klog.FromContext(ctx).Info("Evicting a pod that does not tolerate the taints of its node",
			"pod", key.NamespacedName, "node", made.node)
		c.Record(evictionBegun(key.NamespacedName))
	}
	pod, found, err := reconcile.Found(c.pods.Pods(key.Namespace).Get(key.Name))
	switch {
	case err != nil:
		return err
	case !found || pod.UID != key.uid:
		c.appointments.end(key)
		return nil
	}
	err = c.delete(ctx, pod)
	switch {
	case apierrors.IsNotFound(err):
		c.evictionQueue.AddAfter(key, reconcile.RecheckAfter)
		return nil
	case err != nil:
		return err
	}
	c.appointments.end(key)
	c.metrics.deletions.Inc()
	c.metrics.delay.Observe(c.Clock.Now().Sub(made.due).Seconds())
	return nil
}

// evictLater enqueues a pod for the time of its appointment, or to be enqueued again before.
func (c *evictionController) evictLater(key identity, due time.Time) {
	c.evictionQueue.AddAfter(key, min(due.Sub(c.Clock.Now()), reconcile.LongestWait))
}

// isDue reports whether a pod has to be evicted. If its time is still to come, which may also have been postponed, the
// pod is enqueued again.
func (c *evictionController) isDue(key identity, now time.Time) bool {
	made, ok := c.appointments.of(key)
	if !ok {
		return false
	}
	if made.due.After(now) {
		c.evictLater(key, made.due)
		return false
	}
	return true
}

// delete marks a pod as the target of a disruption and deletes it, with its own grace period. Both
// are refused if another pod has its name by now.
func (c *evictionController) delete(ctx context.Context, pod *corev1.Pod) error {
	if err := pods.MarkDisrupted(ctx, c.Client, pod, conditionFor(pod, c.Clock.Now())); err != nil {
		return fmt.Errorf("marking pod %s/%s as to be deleted: %w", pod.Namespace, pod.Name, err)
	}
	if err := pods.Delete(ctx, c.Client, pod, nil); err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// conditionFor is the condition of a pod that is about to be deleted.
func conditionFor(pod *corev1.Pod, now time.Time) corev1.PodCondition {
	return corev1.PodCondition{
		Type:               corev1.DisruptionTarget,
		Status:             corev1.ConditionTrue,
		Reason:             "DeletionByTaintManager",
		Message:            "Taint manager: deleting due to NoExecute taint",
		ObservedGeneration: pod.Generation,
		LastTransitionTime: metav1.NewTime(now),
	}
}
