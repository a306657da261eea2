package nodelifecycle

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// tries is how often a pass tries to write the conditions of a silent node.
const tries = 3

// setUnknown sets the conditions of a silent node to Unknown, and queues it for the marking of its pods. If the node
// has changed meanwhile it is read, and judged once more. What fails is tried again by the next pass.
func (c *lifecycleController) setUnknown(ctx context.Context, name string) {
	logger := klog.FromContext(ctx).WithValues("node", name)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for range tries {
		node, _ := c.cluster.newest(name)
		if node == nil || !c.cluster.isSilent(name) {
			return
		}
		err := c.updateStatusUnknown(ctx, node)
		switch {
		case err == nil:
			logger.Info("Node is silent, its conditions are unknown", "was", string(statusOf(node)))
			c.orderMarkingIfUnknown(name)
			return
		case !apierrors.IsConflict(err):
			logger.Error(err, "Cannot update the conditions of a silent node")
			return
		}
		if !c.refresh(ctx, name) {
			return
		}
		c.orderMarkingIfUnknown(name)
	}
}

// orderMarkingIfUnknown marks the pods of a node not ready, once, when it is seen that its conditions have become
// Unknown. The answer to the write may have been lost, so that may come from a later read.
func (c *lifecycleController) orderMarkingIfUnknown(name string) {
	if node, ok := c.cluster.confirmedUnknown(name); ok {
		c.Record(nodeNotReady(node))
		c.markQueue.Add(name)
	}
}

func (c *lifecycleController) updateStatusUnknown(ctx context.Context, node *corev1.Node) error {
	now := c.Clock.Now()
	changed := node.DeepCopy()
	changed.Status.Conditions = unknownConditions(node, now)
	written, err := c.Client.CoreV1().Nodes().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	c.cluster.wrote(written, now)
	return nil
}

// refresh reads a node that has changed. It returns false if that fails.
func (c *lifecycleController) refresh(ctx context.Context, name string) bool {
	now := c.Clock.Now()
	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot read a node that has changed", "node", name, "err", err)
		return false
	}
	c.cluster.read(node, now)
	return true
}

// findSilent returns the silent nodes and a suspect. The suspect is a node whose silence is long enough to
// justify checking the instance's own view, or "" if there is none. It calls judged after each node.
func (c *cluster) findSilent(now time.Time, judged func()) (silent []string, suspect string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = time.Time{}
	for _, r := range c.nodes {
		is := c.hasFallenSilent(r, now)
		isShown := r.ready == corev1.ConditionUnknown
		if end := c.graceEnd(r); !isShown && end.After(now) && (c.next.IsZero() || end.Before(c.next)) {
			c.next = end
		}
		if is {
			silent = append(silent, r.name)
		}
		if is || !isShown && now.Sub(c.sight.silentSince(r.seen)) > c.sight.quiet {
			suspect = r.name
		}
		judged()
	}
	return silent, suspect
}

// isSilent reports whether a node is known to be silent, see areSilent.
func (c *cluster) isSilent(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.nodes[name]
	return r != nil && c.hadFallenSilent(r)
}

// hasFallenSilent reports whether a node has exceeded its grace period but its conditions do not show that. A
// heartbeat since the previous pass is never too old, however short the grace period.
func (c *cluster) hasFallenSilent(r *record, now time.Time) bool {
	return r.ready != corev1.ConditionUnknown && r.seen.Before(c.passed) && now.After(c.graceEnd(r))
}

// graceEnd returns the end of the grace period of a node.
func (c *cluster) graceEnd(r *record) time.Time {
	return c.sight.silentSince(r.seen).Add(c.graceOf(r))
}

// statusOf returns the status of the Ready condition of a node, empty if it has none.
func statusOf(node *corev1.Node) corev1.ConditionStatus {
	if ready := conditionOf(node, corev1.NodeReady); ready != nil {
		return ready.Status
	}
	return ""
}
