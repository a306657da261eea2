// Package disruption maintains the status of PodDisruptionBudgets: how many of the pods they
// select are expected, desired to be healthy, and healthy, and how many may be evicted. The
// eviction API decrements that number and records the evicted pods.
//
// The model, in rules:
//
//  1. A budget is reconciled when it or one of its pods changes, also if that is no longer one of
//     them, and when a controller of its pods is scaled.
//  2. With an integer minAvailable, the matching pods are the expected ones. Otherwise their
//     number is the sum of the replicas of the pods' controllers: RC, ReplicaSet, Deployment
//     and StatefulSet are read from the caches, others through their scale subresource.
//  3. A pod is healthy if it is Ready, not being deleted, and was not evicted within the last
//     two minutes. Healthy pods beyond the desired number may be evicted, none while no pod is
//     expected.
//  4. If any of that cannot be determined, nothing may be evicted, and the budget is retried
//     with backoff: the cause may be transient, such as an unavailable API server or a kind
//     that discovery does not show yet, and its end causes no event of the budget.
//  5. The status is written only if the budget has not changed since it was read. Evictions
//     change it concurrently; it is never read again and overwritten, since that would undo
//     them. For the same reason a budget is not reconciled before the cache shows the last
//     write.
//  6. A write that does not affect the eviction API is delayed until 100 ms after the last one.
//  7. If a pod with the condition DisruptionTarget still exists after two minutes, the
//     condition is set to False.
//
// Behaviour: docs/specs/disruption-controller.md.
package disruption

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// Descriptor describes disruption-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "disruption-controller",
		Aliases:        []string{"disruption"},
		ServiceAccount: "disruption-controller",
		EventSource:    "controllermanager",
		Requires: []schema.GroupVersionResource{
			policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("replicationcontrollers"),
			appsv1.SchemeGroupVersion.WithResource("replicasets"),
			appsv1.SchemeGroupVersion.WithResource("deployments"),
			appsv1.SchemeGroupVersion.WithResource("statefulsets"),
		},
	}, build)
}

// budgetResource is the resource of budgets in the memory of writes.
var budgetResource = policyv1.Resource("poddisruptionbudgets")

type disruptionController struct {
	controller.Env
	budgets policylisters.PodDisruptionBudgetLister
	pods    corelisters.PodLister

	budgetsOf index.ByLabelSelector[*policyv1.PodDisruptionBudget]
	podsOf    index.SelectedPods
	selectors *owners.Selectors[*policyv1.PodDisruptionBudget]
	workloads *workloads
	writes    *writes.Memory
	podStore  cache.Store
	written   map[types.NamespacedName]ownWrite // of the one worker

	// The queues are the loops, except in tests.
	budgetQueue  reconcile.Queue[types.NamespacedName]
	budgetLoop   *reconcile.Loop[types.NamespacedName]
	recheckQueue reconcile.Queue[types.NamespacedName]
	recheckLoop  *reconcile.Loop[types.NamespacedName]
	staleQueue   reconcile.Queue[types.NamespacedName]
	staleLoop    *reconcile.Loop[types.NamespacedName]
}

// ownWrite is the last status of a budget that was written: its version, and the version of the evictions in it.
type ownWrite struct{ version, evictions string }

func build(env controller.Env) (*disruptionController, error) {
	scales, err := env.Scales()
	if err != nil {
		return nil, err
	}
	return newController(env, scales), nil
}

func newController(env controller.Env, scales scale.ScalesGetter) *disruptionController {
	core, budgets := env.Informers.Core().V1(), env.Informers.Policy().V1().PodDisruptionBudgets()
	c := &disruptionController{
		Env:       env,
		budgets:   budgets.Lister(),
		pods:      core.Pods().Lister(),
		budgetsOf: index.NewByLabelSelector(budgets.Informer(), "budgetSelector", selectorOf),
		podsOf:    index.NewSelectedPods(core.Pods().Informer()),
		selectors: owners.NewSelectors(parseSelector),
		workloads: newWorkloads(env, scales),
		podStore:  core.Pods().Informer().GetStore(),
		written:   map[types.NamespacedName]ownWrite{},
		writes:    writes.New(env.Clock, writes.Stores{budgetResource: budgets.Informer().GetStore()}),
	}
	oneWorker := func(queue string) reconcile.Options[types.NamespacedName] {
		return reconcile.Options[types.NamespacedName]{Queue: queue, Workers: 1}
	}
	c.budgetLoop = reconcile.New(env, oneWorker("disruption"), c.reconcile)
	c.recheckLoop = reconcile.New(env, oneWorker("disruption_recheck"), c.recheck)
	c.staleLoop = reconcile.New(env, oneWorker("stale_pod_disruption"), c.reconcileStale)
	c.budgetQueue, c.recheckQueue, c.staleQueue = c.budgetLoop, c.recheckLoop, c.staleLoop
	c.watch(budgets.Informer(), core.Pods().Informer())
	c.watchOwners()
	return c
}

func selectorOf(budget *policyv1.PodDisruptionBudget) *metav1.LabelSelector {
	return budget.Spec.Selector
}

func parseSelector(budget *policyv1.PodDisruptionBudget) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(budget.Spec.Selector)
}

// Run implements controller.Controller.
func (c *disruptionController) Run(ctx context.Context) error {
	return concurrent.Run(ctx, c.budgetLoop.Run, c.recheckLoop.Run, c.staleLoop.Run)
}
