package disruption

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch adds the handlers of budgets and pods.
func (c *disruptionController) watch(budgetInformer, podInformer cache.SharedIndexInformer) {
	watch.Objects(budgetInformer, watch.Funcs[*policyv1.PodDisruptionBudget]{
		Add: func(lane reconcile.Lane, budget *policyv1.PodDisruptionBudget) {
			c.budgetQueue.Enqueue(lane, reconcile.KeyOf(budget))
		},
		Update: c.budgetUpdated,
		Delete: func(budget *policyv1.PodDisruptionBudget) { c.budgetQueue.Add(reconcile.KeyOf(budget)) },
	})
	watch.Objects(podInformer, watch.Funcs[*corev1.Pod]{
		Add: func(lane reconcile.Lane, pod *corev1.Pod) {
			c.wakeBudgets(lane, pod)
			c.awaitStale(lane, pod)
		},
		UpdateIf: func(old, pod *corev1.Pod) bool { return pods.Matters(old, pod) || markOf(&pod.Status) != nil },
		Update:   c.podUpdated,
		Delete:   func(pod *corev1.Pod) { c.wakeBudgets(reconcile.Gone(pod), pod) },
	})
}

// budgetUpdated ignores the echo of the controller's own write: the status was computed from
// the caches, and later changes have their own events.
func (c *disruptionController) budgetUpdated(lane reconcile.Lane, _, budget *policyv1.PodDisruptionBudget) {
	if !lane.IsBacklog() && c.writes.IsEcho(budget) {
		return
	}
	c.budgetQueue.Enqueue(lane, reconcile.KeyOf(budget))
}

// podUpdated ignores changes that a budget does not depend on, which are most, and resyncs: budgets are resynced
// themselves. A pod whose labels have changed may no longer be one of the healthy pods of a budget.
func (c *disruptionController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	if pods.Matters(old, pod) {
		c.wakeBudgets(lane, pod)
		if !maps.Equal(old.Labels, pod.Labels) {
			c.enqueue(lane, c.budgetsFor(old.Namespace, old.Labels))
		}
	}
	c.awaitStale(lane, pod)
}

// wakeBudgets enqueues the budgets that select the pod. Several for one pod are a mistake, but none of them may permit
// more evictions than there are healthy pods for.
func (c *disruptionController) wakeBudgets(lane reconcile.Lane, pod *corev1.Pod) {
	selecting := c.budgetsFor(pod.Namespace, pod.Labels)
	if len(selecting) > 1 {
		c.Record(severalBudgets(pod, selecting[0].Name))
	}
	c.enqueue(lane, selecting)
}

func (c *disruptionController) enqueue(lane reconcile.Lane, budgets []*policyv1.PodDisruptionBudget) {
	for _, budget := range budgets {
		c.budgetQueue.Enqueue(lane, reconcile.KeyOf(budget))
	}
}

// budgetsFor returns the budgets that select pods with these labels. An invalid selector selects nothing.
func (c *disruptionController) budgetsFor(namespace string, pod labels.Set) (selecting []*policyv1.PodDisruptionBudget) {
	budgets, err := c.budgetsOf.Candidates(namespace, pod)
	if err != nil {
		klog.Background().Error(err, "Failed to look up the budgets of pods", "namespace", namespace, "labels", pod)
		return nil
	}
	for _, budget := range budgets {
		selector, err := c.selectors.Of(budget)
		if err == nil && selector.Matches(pod) {
			selecting = append(selecting, budget)
		}
	}
	return selecting
}

// awaitStale enqueues a pod for when its condition DisruptionTarget becomes stale.
func (c *disruptionController) awaitStale(lane reconcile.Lane, pod *corev1.Pod) {
	switch wait, candidate := untilStale(pod, c.Clock.Now()); {
	case !candidate:
	case wait > 0:
		c.staleQueue.AddAfter(reconcile.KeyOf(pod), wait)
	default:
		c.staleQueue.Enqueue(lane, reconcile.KeyOf(pod))
	}
}
