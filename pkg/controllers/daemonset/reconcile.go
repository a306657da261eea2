package daemonset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *daemonSetController) reconcile(ctx context.Context, ds *appsv1.DaemonSet) error {
	if equality.Semantic.DeepEqual(ds.Spec.Selector, &metav1.LabelSelector{}) {
		c.Record(selectingAll(ds))
		return nil
	}
	if ds.DeletionTimestamp != nil {
		return nil
	}
	return c.sync(ctx, ds)
}

// sync reconciles the revisions, pods and status of a set.
func (c *daemonSetController) sync(ctx context.Context, ds *appsv1.DaemonSet) error {
	blueprint, err := c.blueprints.of(ds)
	if err != nil {
		return err
	}
	// Called before pods are listed: a pod that arrives in between must not count as missing.
	mayAct := c.owners.Settled(ds)
	claimed, err := c.claimPods(ctx, ds)
	if err != nil {
		return err
	}
	history, claimed, err := c.construct(ctx, ds, blueprint, claimed)
	if err != nil {
		return fmt.Errorf("failed to construct revisions of DaemonSet: %w", err)
	}
	o, err := c.observe(ctx, ds, blueprint, history.hash(), claimed)
	if err != nil {
		return err
	}
	if !mayAct {
		// The new generation has not been acted on yet.
		return c.report(ctx, o, ds.Status.ObservedGeneration)
	}
	failure := c.act(ctx, o, blueprint, history)
	if ctx.Err() != nil {
		// The requests were cancelled, so their errors say nothing about the set.
		return errors.Join(context.Cause(ctx), failure)
	}
	if err := c.report(ctx, o, ds.Generation); err != nil && (failure == nil || reconcile.IsExpected(failure)) {
		return err
	}
	return failure
}

// act manages the pods, continues a rolling update, and prunes the history.
func (c *daemonSetController) act(ctx context.Context, o *observation, b *blueprint, h revisions) error {
	plan := o.manage(c.failures)
	if err := c.apply(ctx, o, b, plan); err != nil {
		return err
	}
	// The changes that manage made cause events, and the update continues after them.
	if plan.empty() && o.ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		update, err := o.rollingUpdate()
		if err != nil {
			return err
		}
		if err := c.apply(ctx, o, b, update); err != nil {
			return err
		}
	}
	return c.prune(ctx, o, h)
}

// claimPods returns all pods of the set, including those that have finished or are being
// deleted.
func (c *daemonSetController) claimPods(ctx context.Context, ds *appsv1.DaemonSet) ([]*corev1.Pod, error) {
	selector, err := c.owners.Selectors.Of(ds)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of DaemonSet %s: %w", klog.KObj(ds), err)
	}
	candidates, err := c.podIndex.OwnedByOrOrphans(daemonSetKind.Kind, ds)
	if err != nil {
		return nil, err
	}
	return owners.ClaimerFor(c.owners, ds, "Pod", selector, c.podControl.PatchFor(ds)).Claim(ctx, candidates)
}

// enqueueAfter enqueues a set after a delay, if there is one.
func (c *daemonSetController) enqueueAfter(ds *appsv1.DaemonSet, delay time.Duration) {
	if delay > 0 {
		c.owners.EnqueueAfter(ds, delay)
	}
}
