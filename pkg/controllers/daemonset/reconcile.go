package daemonset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *daemonSetController) reconcile(ctx context.Context, key types.NamespacedName) error {
	ds, err := c.current(key)
	if apierrors.IsNotFound(err) {
		c.tracker.Forget(key, "")
		c.selectors.Forget(key)
		c.blueprints.forget(key)
		return nil
	}
	if reconcile.IsRequeue(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("reading DaemonSet %s: %w", key, err)
	}
	if equality.Semantic.DeepEqual(ds.Spec.Selector, &metav1.LabelSelector{}) {
		c.events.Event(ds, corev1.EventTypeWarning, reasonSelectingAll, messageSelectingAll)
		return nil
	}
	if ds.DeletionTimestamp != nil {
		return nil
	}
	return c.work(ctx, ds)
}

// work brings the revisions, the pods and the status of a set up to date.
func (c *daemonSetController) work(ctx context.Context, ds *appsv1.DaemonSet) error {
	blueprint, err := c.blueprints.of(ds)
	if err != nil {
		return err
	}
	// Asked before pods are listed: one that lands in between must not be missed.
	mayAct := c.settled(ds)
	claimed, err := c.claimPods(ctx, ds)
	if err != nil {
		return err
	}
	history, claimed, err := c.construct(ctx, ds, blueprint, claimed)
	if err != nil {
		return fmt.Errorf("failed to construct revisions of DaemonSet: %w", err)
	}
	v, err := c.look(ctx, ds, blueprint, history.hash(), claimed)
	if err != nil {
		return err
	}
	if !mayAct {
		// What was done belongs to the generation that was observed last.
		return c.report(ctx, v, ds.Status.ObservedGeneration)
	}
	failure := c.act(ctx, v, blueprint, history)
	if ctx.Err() != nil {
		// Cut off: what failed says nothing about the set.
		return errors.Join(context.Cause(ctx), failure)
	}
	if err := c.report(ctx, v, ds.Generation); err != nil && failure == nil {
		return err
	}
	return failure
}

// act manages the pods, moves a rolling update on, and prunes the history.
func (c *daemonSetController) act(ctx context.Context, v *view, b *blueprint, h revisions) error {
	plan := v.manage(c.failures)
	if err := c.apply(ctx, v, b, plan); err != nil {
		return err
	}
	// What manage did comes back as events, and the update goes on from there.
	if plan.empty() && v.ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		update, err := v.rollingUpdate()
		if err != nil {
			return err
		}
		if err := c.apply(ctx, v, b, update); err != nil {
			return err
		}
	}
	return c.prune(ctx, v, h)
}

// current returns the set as it is cached. It fails while the caches are older than what was
// written for the set.
func (c *daemonSetController) current(key types.NamespacedName) (*appsv1.DaemonSet, error) {
	get := func() (*appsv1.DaemonSet, error) { return c.sets.DaemonSets(key.Namespace).Get(key.Name) }
	if !c.config.requireFresh {
		return get()
	}
	ds, err := expectations.Read(c.tracker, key, get)
	var stale *expectations.StaleError
	if !errors.As(err, &stale) {
		return ds, err
	}
	c.metrics.staleSyncSkipped(stale.Resource)
	return nil, reconcile.Requeue(err)
}

// settled reports that the caches show what was done for the set before.
func (c *daemonSetController) settled(ds *appsv1.DaemonSet) bool {
	settled, retry := c.tracker.Settled(keyOf(ds), ds.UID)
	if retry > 0 {
		c.queue.AddAfter(keyOf(ds), retry)
	}
	return settled
}

// claimPods returns all pods of the set, also those that have ended or are being deleted.
func (c *daemonSetController) claimPods(ctx context.Context, ds *appsv1.DaemonSet) ([]*corev1.Pod, error) {
	selector, err := c.selectors.Of(ds)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of DaemonSet %s: %w", keyOf(ds), err)
	}
	candidates, err := c.pods.OwnedByOrOrphans(daemonSetKind.Kind, ds)
	if err != nil {
		return nil, err
	}
	return claimer(c, ds, "Pod", selector, c.control.PatchFor(ds)).Claim(ctx, candidates)
}

func claimer[T metav1.Object](c *daemonSetController, ds *appsv1.DaemonSet, kind string, selector labels.Selector, patch func(context.Context, T, []byte) error) ownership.Claimer[T] {
	return ownership.Claimer[T]{
		Owner:     ds,
		OwnerKind: daemonSetKind,
		Kind:      kind,
		Selector:  selector,
		CanAdopt: ownership.Recheck(ds, daemonSetKind.Kind, func(ctx context.Context) (*appsv1.DaemonSet, error) {
			return c.client.AppsV1().DaemonSets(ds.Namespace).Get(ctx, ds.Name, metav1.GetOptions{})
		}),
		Patch: patch,
	}
}

// enqueueAfter looks at a set again after a delay.
func (c *daemonSetController) enqueueAfter(ds *appsv1.DaemonSet, delay time.Duration) {
	if delay > 0 {
		c.queue.AddAfter(keyOf(ds), delay)
	}
}
