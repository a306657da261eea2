package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

func (c *disruptionController) reconcile(ctx context.Context, key types.NamespacedName) error {
	// The event of the controller's own write enqueues nothing, so what it shows has to be read here.
	budget, err := writes.Read(c.writes, func() (*policyv1.PodDisruptionBudget, error) {
		return c.budgets.PodDisruptionBudgets(key.Namespace).Get(key.Name)
	})
	var stale *writes.StaleError
	if errors.As(err, &stale) {
		return reconcile.Requeue(err)
	}
	if apierrors.IsNotFound(err) {
		c.selectors.Forget(key)
		delete(c.written, key)
		c.writes.ForgetAll(key)
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up budget %s: %w", key, err)
	}
	err = c.account(ctx, budget)
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err) || ctx.Err() != nil:
		return fmt.Errorf("reconciling budget %s: %w", key, err)
	}
	klog.FromContext(ctx).Error(err, "Failed to compute the status of a budget, allowing no evictions", "budget", key)
	if failure := c.permitNothing(ctx, budget, err); failure != nil {
		return fmt.Errorf("reconciling budget %s: %w", key, failure)
	}
	// The cause may be transient, and its end causes no event.
	return reconcile.Requeue(fmt.Errorf("accounting for budget %s: %w", key, err))
}

// account computes the status of a budget and writes it if it has changed. Its errors are not
// wrapped: users read them in the status of the budget.
func (c *disruptionController) account(ctx context.Context, budget *policyv1.PodDisruptionBudget) error {
	// Read before the pods, or the version could be newer than they are. If pods are stored in another etcd than budgets,
	// the comparison means nothing: evictions are then kept until they expire, or dropped as if the cache were never behind.
	older := controller.IsOlder(c.podStore.LastStoreSyncResourceVersion(), c.evictionsAsOf(budget))
	selected, err := c.selectedBy(budget)
	if err != nil {
		return err
	}
	counts, err := c.count(ctx, budget, selected)
	if err != nil {
		return err
	}
	now := c.Clock.Now()
	evicted := judgeEvictions(budget.Status.DisruptedPods, selected, older, now)
	for _, pod := range evicted.overdue {
		c.Record(notDeleted(budget, pod))
	}
	counts.healthy = countHealthy(selected, evicted.pending, now)
	if err := c.write(ctx, budget, statusOf(budget, counts, evicted.pending)); err != nil {
		return err
	}
	c.recheckAt(reconcile.KeyOf(budget), evicted.next)
	return nil
}

// selectedBy returns the pods that a budget selects.
func (c *disruptionController) selectedBy(budget *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	selected, err := c.find(budget)
	if err != nil {
		c.Record(podsUnknown(budget, err))
		return nil, err
	}
	if len(selected) == 0 {
		c.Record(noPods(budget))
	}
	return selected, nil
}

func (c *disruptionController) find(budget *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	selector, err := c.selectors.Of(budget)
	if err != nil {
		return nil, err
	}
	return c.podsOf.ByLabelSelector(budget.Namespace, budget.Spec.Selector, selector)
}

// count returns how many pods are expected and how many of them should be healthy.
func (c *disruptionController) count(
	ctx context.Context, budget *policyv1.PodDisruptionBudget, selected []*corev1.Pod,
) (counts, error) {
	expected := int32(len(selected))
	if needsReplicas(&budget.Spec) {
		sum, err := c.workloads.replicasBehind(ctx, budget.Namespace, selected)
		c.recheckAt(reconcile.KeyOf(budget), sum.until)
		if err != nil {
			c.RecordFailure(ctx, expectedUnknown(budget, err))
			return counts{}, err
		}
		if len(sum.unmanaged) > 0 {
			klog.FromContext(ctx).V(4).Info("Pods of a budget have no controller",
				"budget", klog.KObj(budget), "pods", sum.unmanaged)
			c.Record(unmanagedPods(budget))
		}
		expected = sum.replicas
	}
	found, err := wanted(&budget.Spec, expected)
	if err != nil {
		c.Record(expectedUnknown(budget, err))
	}
	return found, err
}

// write writes a status if it differs from that of the budget.
func (c *disruptionController) write(
	ctx context.Context, budget *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus,
) error {
	if isCurrent(budget, status) {
		return nil
	}
	if delay := c.writes.StatusDelay(budget); delay > 0 && answersAlike(budget, status) {
		c.budgetQueue.AddAfter(reconcile.KeyOf(budget), delay)
		return nil
	}
	changed := budget.DeepCopy()
	changed.Status = status
	setAllowed(&changed.Status, c.Clock.Now())
	return c.updateStatus(ctx, changed)
}

// permitNothing allows no evictions under a budget whose status could not be computed, and
// reports the cause in its status.
func (c *disruptionController) permitNothing(
	ctx context.Context, budget *policyv1.PodDisruptionBudget, cause error,
) error {
	changed := failedBudget(budget, cause, c.Clock.Now())
	if sameStatus(budget, changed) {
		return nil
	}
	return c.updateStatus(ctx, changed)
}

// updateStatus writes the status of a budget.
func (c *disruptionController) updateStatus(ctx context.Context, budget *policyv1.PodDisruptionBudget) error {
	client := c.Client.PolicyV1().PodDisruptionBudgets(budget.Namespace)
	written, err := client.UpdateStatus(ctx, budget, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	c.written[reconcile.KeyOf(budget)] = ownWrite{version: written.ResourceVersion, evictions: c.evictionsAsOf(budget)}
	c.writes.Wrote(budget, budgetResource, written.ResourceVersion)
	c.writes.WroteStatus(budget, written.ResourceVersion)
	return nil
}

// evictionsAsOf returns a version of a budget that has all evictions that are recorded in it. The controller's own
// writes, which record none, do not count: otherwise the cache of pods would be older than the budget most of the time.
func (c *disruptionController) evictionsAsOf(budget *policyv1.PodDisruptionBudget) string {
	if last := c.written[reconcile.KeyOf(budget)]; last.version == budget.ResourceVersion {
		return last.evictions
	}
	return budget.ResourceVersion
}

// recheckAt enqueues a budget for the moment after a time, unless that is zero: the record of an eviction expires when
// its time has passed.
func (c *disruptionController) recheckAt(key types.NamespacedName, at time.Time) {
	if !at.IsZero() {
		c.recheckQueue.AddAfter(key, max(at.Sub(c.Clock.Now()), time.Millisecond))
	}
}

// recheck moves a budget whose time has come to the queue of budgets. That is no failure: the limit for all failed keys
// together delays neither it nor, because of it, others.
func (c *disruptionController) recheck(_ context.Context, key types.NamespacedName) error {
	c.budgetQueue.Add(key)
	return nil
}
