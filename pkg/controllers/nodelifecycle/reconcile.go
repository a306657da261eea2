package nodelifecycle

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/node/topology"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconcileNode corrects the taints and the labels of a node.
func (c *lifecycleController) reconcileNode(ctx context.Context, name string) error {
	return errors.Join(c.reconcileTaints(ctx, name), c.reconcileLabels(ctx, name))
}

// reconcileTaints patches the newest known state of a node. If there is a newer one, that is read, and patched instead.
// A node that seems to have no taint to strip is read first: it may have been granted one by a write whose answer was
// lost.
func (c *lifecycleController) reconcileTaints(ctx context.Context, name string) error {
	node, what := c.cluster.newest(name)
	if node != nil && what == stripped && !isEvicting(node) && !c.refresh(ctx, name) {
		return reconcile.Requeue(fmt.Errorf("node %s cannot be read to strip its taints", name))
	}
	err := c.patchTaints(ctx, name)
	if apierrors.IsConflict(err) && c.refresh(ctx, name) {
		err = c.patchTaints(ctx, name)
	}
	if apierrors.IsNotFound(err) {
		// The cache will show that it is gone, unless this is the answer of an admission webhook.
		c.nodeQueue.AddAfter(name, reconcile.RecheckAfter)
		return nil
	}
	return err
}

func (c *lifecycleController) patchTaints(ctx context.Context, name string) error {
	node, what := c.cluster.newest(name)
	if node == nil {
		return nil
	}
	change := changeOf(node, what)
	if change.isEmpty() {
		c.cluster.tainted(node, what)
		return nil
	}
	now := c.Clock.Now()
	body, err := taintsPatch(node, change.applyTo(node.Spec.Taints, now))
	if err != nil {
		return err
	}
	written, err := c.Client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("changing the taints of node %s: %w", name, err)
	}
	klog.FromContext(ctx).V(2).Info("Changed the taints of a node",
		"node", name, "added", change.add, "removed", change.remove)
	c.cluster.wrote(written, now)
	c.cluster.tainted(node, what)
	if zone := topology.GetZoneKey(written); what == granted && change.evicts() {
		klog.FromContext(ctx).Info("Tainted a node so that its pods are evicted", "node", name, "zone", zone)
		c.metrics.evictions.WithLabelValues(zone).Inc()
	}
	return nil
}

func (c *lifecycleController) reconcileLabels(ctx context.Context, name string) error {
	node, _ := c.cluster.newest(name)
	if node == nil {
		return nil
	}
	missing := missingLabels(node)
	if missing == nil {
		return nil
	}
	body, err := labelsPatch(node, missing)
	if err != nil {
		return err
	}
	now := c.Clock.Now()
	written, err := c.Client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err): // as for taints
		c.nodeQueue.AddAfter(name, reconcile.RecheckAfter)
		return nil
	case err != nil:
		return fmt.Errorf("labeling node %s: %w", name, err)
	}
	c.cluster.read(written, now) // the patch has no resource version, so its answer may be the first to show a heartbeat
	return nil
}
