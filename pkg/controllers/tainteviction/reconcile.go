package tainteviction

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconcileNode judges the pods of a node whose taints changed. Those of a node that is gone keep
// their appointments.
func (c *evictionController) reconcileNode(ctx context.Context, name string) error {
	node, found, err := reconcile.Found(c.nodes.Get(name))
	if !found {
		return err
	}
	now := c.Clock.Now()
	if len(noExecute(node)) == 0 {
		for _, key := range c.appointments.with(name) {
			if err := c.judgePod(ctx, key, now, sinceNow); err != nil {
				return err
			}
		}
		return nil
	}
	return c.judgePodsOn(ctx, name, now, sinceNow)
}

func (c *evictionController) judgePodsOn(ctx context.Context, node string, now time.Time, from origin) error {
	pods, err := c.podsOn.On(node)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := c.judgePod(ctx, reconcile.KeyOf(pod), now, from); err != nil {
			return err
		}
	}
	return nil
}

func (c *evictionController) reconcilePod(ctx context.Context, key types.NamespacedName) error {
	return c.judgePod(ctx, key, c.Clock.Now(), sinceNow)
}

// judgePod makes, keeps or cancels the appointment with a pod, by what the caches hold.
func (c *evictionController) judgePod(ctx context.Context, key types.NamespacedName, now time.Time, from origin) error {
	cancelled, made, err := c.settle(ctx, key, now, from)
	if err != nil {
		return err
	}
	if cancelled != nil && !cancelled.isImmediate() {
		klog.FromContext(ctx).V(2).Info("Cancelling the eviction of a pod", "pod", key, "due", cancelled.due.Round(0))
		c.Record(evictionCancelled(key))
	}
	if made != nil {
		klog.FromContext(ctx).V(2).Info("Pod is to be evicted", "pod", key, "node", made.node, "due", made.due.Round(0))
		c.evictLater(identity{key, made.uid}, made.due)
	}
	return nil
}

// settle changes the appointment with a pod. It returns the one that was cancelled and the one that
// was made, if any. The caches are read under the lock, so that of two judgements of a pod the
// later one sees the later state.
func (c *evictionController) settle(
	ctx context.Context, key types.NamespacedName, now time.Time, from origin,
) (cancelled, made *appointment, err error) {
	a := c.appointments
	a.mu.Lock()
	defer a.mu.Unlock()
	pod, found, err := reconcile.Found(c.pods.Pods(key.Namespace).Get(key.Name))
	if err != nil {
		return nil, nil, err
	}
	var existing *appointment
	if current, ok := a.all[key]; ok {
		existing = &current
	}
	if existing != nil && (!found || pod.UID != existing.uid) {
		a.drop(key)
		if !existing.begun { // else it is gone because of its eviction
			cancelled = existing
		}
		existing = nil
	}
	if existing != nil && existing.created.After(now) {
		now = c.Clock.Now() // made since this judgement began, by another worker: the clock was not set back
	}
	if !found || pod.Spec.NodeName == "" {
		return cancelled, nil, nil
	}
	node, known, err := reconcile.Found(c.nodes.Get(pod.Spec.NodeName))
	if !known {
		return cancelled, nil, err
	}
	verdict := c.verdict(ctx, pod, node, existing, now, from)
	if verdict.cancelled {
		a.drop(key)
		cancelled = existing
	}
	if verdict.made != nil {
		a.set(key, *verdict.made)
	}
	return cancelled, verdict.made, nil
}

func (c *evictionController) verdict(
	ctx context.Context, pod *corev1.Pod, node *corev1.Node, existing *appointment, now time.Time, from origin,
) verdict {
	taints := noExecute(node)
	if len(taints) == 0 {
		return verdict{cancelled: existing != nil}
	}
	return c.judge(klog.FromContext(ctx), pod, taints, existing, now, from)
}

// mayMatter reports whether a pod has to be judged: it has an appointment, or its node has taints. If
// the node is not known yet, the pod is judged together with it.
func (c *evictionController) mayMatter(pod *corev1.Pod) bool {
	if c.appointments.has(reconcile.KeyOf(pod)) {
		return true
	}
	if pod.Spec.NodeName == "" {
		return false
	}
	node, err := c.nodes.Get(pod.Spec.NodeName)
	return err == nil && evicts(node)
}
