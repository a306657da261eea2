package disruption

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch adds the handlers. What owns the pods is only read: each of its changes that
// matters here changes pods as well.
func (c *disruptionController) watch(budgetInformer, podInformer cache.SharedIndexInformer) error {
	err := watch.Objects(budgetInformer, watch.Funcs[*policyv1.PodDisruptionBudget]{
		Add: func(lane reconcile.Lane, budget *policyv1.PodDisruptionBudget) {
			c.budgetLoop.Enqueue(lane, keyOf(budget))
		},
		Update: c.budgetUpdated,
		Delete: func(budget *policyv1.PodDisruptionBudget) { c.budgetLoop.Add(keyOf(budget)) },
	})
	if err != nil {
		return err
	}
	return watch.Objects(podInformer, watch.Funcs[*corev1.Pod]{
		Add: func(lane reconcile.Lane, pod *corev1.Pod) {
			c.wakeBudget(lane, pod)
			c.awaitStale(lane, pod)
		},
		Update: c.podUpdated,
		Delete: func(pod *corev1.Pod) { c.wakeBudget(reconcile.Fresh, pod) },
	})
}

// budgetUpdated leaves out the echo of the controller's own write: the budget is what was
// worked out from the caches, and what changed in them since then brings its own event.
func (c *disruptionController) budgetUpdated(lane reconcile.Lane, _, budget *policyv1.PodDisruptionBudget) {
	if lane == reconcile.Fresh && c.writes.IsEcho(keyOf(budget), budget.ResourceVersion) {
		return
	}
	c.budgetLoop.Enqueue(lane, keyOf(budget))
}

// podUpdated leaves out the changes of pods that a budget does not depend on, which are
// most, and resyncs: budgets are resynced themselves.
func (c *disruptionController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	if pods.Matters(old, pod) {
		c.wakeBudget(lane, pod)
	}
	c.awaitStale(lane, pod)
}

// wakeBudget queues one of the budgets that select the pod.
func (c *disruptionController) wakeBudget(lane reconcile.Lane, pod *corev1.Pod) {
	budgets, err := c.budgetsOf.Candidates(pod.Namespace, pod.Labels)
	if err != nil {
		klog.Background().Error(err, "The budgets of a pod could not be looked up", "pod", klog.KObj(pod))
		return
	}
	var chosen *policyv1.PodDisruptionBudget
	selecting := 0
	for _, budget := range budgets {
		// A selector that is invalid selects nothing.
		selector, err := c.selectors.Of(budget)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		selecting++
		if chosen == nil {
			chosen = budget
		}
	}
	if chosen == nil {
		return
	}
	if selecting > 1 {
		c.tellSeveralBudgets(pod, chosen.Name)
	}
	c.budgetLoop.Enqueue(lane, keyOf(chosen))
}

// awaitStale queues a pod for when its condition DisruptionTarget is stale.
func (c *disruptionController) awaitStale(lane reconcile.Lane, pod *corev1.Pod) {
	switch wait, candidate := untilStale(pod, c.clock.Now()); {
	case !candidate:
	case wait > 0:
		c.staleLoop.AddAfter(keyOf(pod), wait)
	default:
		c.staleLoop.Enqueue(lane, keyOf(pod))
	}
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
