package devicetainteviction

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// evict deletes a pod when its appointment is due, also after the pod was read: that waits for the limits of the
// client. Only a read or the cache proves that the pod is gone: an admission webhook can reject a write with NotFound
// too.
func (c *evictionController) evict(ctx context.Context, key item) error {
	made, due := c.dueAppointment(key)
	if !due {
		return nil
	}
	pod, err := c.Client.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if controller.Absent(err) || err == nil && pod.UID != key.uid {
		c.ended(key, nil)
		return nil
	}
	if err == nil {
		if made, due = c.dueAppointment(key); !due {
			return nil
		}
		err = c.delete(ctx, pod)
	}
	switch {
	case apierrors.IsNotFound(err):
		c.queue.AddAfter(key, reconcile.RecheckAfter)
		return nil
	case err != nil:
		return fmt.Errorf("evicting pod %s: %w", key.NamespacedName, err)
	}
	c.ended(key, made.reasons)
	c.metrics.deletions.Inc()
	c.metrics.delay.Observe(c.Clock.Now().Sub(made.due).Seconds())
	return nil
}

// evictLater enqueues a pod for the time of its appointment, or to be enqueued again before.
func (c *evictionController) evictLater(key item, due time.Time) {
	c.queue.AddAfter(key, min(due.Sub(c.Clock.Now()), reconcile.LongestWait))
}

// dueAppointment returns the appointment for a pod if it is due. If it was cancelled, there is none. If its time is
// still to come, which may also have been postponed, it enqueues the pod again.
func (c *evictionController) dueAppointment(key item) (made appointment, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, ok := c.appointments.with(key)
	if !ok {
		return appointment{}, false
	}
	if made.due.After(c.Clock.Now()) {
		c.evictLater(key, made.due)
		return appointment{}, false
	}
	return made, true
}

// delete marks a pod as the target of a disruption and deletes it with its own grace period, unless the pod
// is already being deleted. The API server rejects both requests if another pod now has the name.
func (c *evictionController) delete(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	ctx, deletion, err := c.Deletions.Ask(ctx, corev1.Resource("pods"), pod.Namespace, pod.Name)
	if err != nil {
		return err
	}
	defer deletion.End()
	klog.FromContext(ctx).Info("Evicting a pod that does not tolerate the taints of its devices",
		"pod", klog.KObj(pod), "node", pod.Spec.NodeName)
	c.Record(evictionBegun(pod))
	err = pods.MarkDisrupted(ctx, c.Client, pod, corev1.PodCondition{
		Type:               corev1.DisruptionTarget,
		Status:             corev1.ConditionTrue,
		Reason:             "DeletionByDeviceTaintManager",
		Message:            "Device Taint manager: deleting due to NoExecute taint",
		LastTransitionTime: metav1.NewTime(c.Clock.Now()),
	})
	if err != nil {
		return fmt.Errorf("marking it as to be deleted: %w", err)
	}
	return pods.Delete(ctx, c.Client, pod, nil)
}

// ended drops the appointment for a pod that is gone or is being deleted. reasons holds the reasons for
// the eviction, and is nil if the pod was already gone.
func (c *evictionController) ended(key item, reasons []reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rememberEvicted(key.NamespacedName, key.uid)
	if made, ok := c.appointments.with(key); ok {
		c.appointments.drop(key.NamespacedName)
		c.reportLater(made.reasons)
	}
	for _, why := range reasons {
		if why.isRule() && c.exists(why) {
			c.counts[why.uid]++
		}
	}
	c.reportLater(reasons)
}

// exists reports whether the rule of a reason still exists.
func (c *evictionController) exists(why reason) bool {
	rule, err := c.rules.Get(why.rule)
	return err == nil && rule.UID == why.uid
}
