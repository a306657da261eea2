// Package disruption keeps the status of PodDisruptionBudgets: how many of the pods they
// select are expected and wanted healthy, how many are, and how many may be evicted. The
// eviction API spends that number, and records the pods it took it for.
//
// The model, in rules:
//
//  1. A budget is looked at when it changes and when one of its pods does. Of the budgets
//     that select one pod, an arbitrary one is.
//  2. With an integer minAvailable, the matching pods are those expected. With anything
//     else, it is the sum of the replicas of the controllers of the pods, so these have to
//     be known: RC, ReplicaSet, Deployment and StatefulSet from the caches, others through
//     their scale subresource.
//  3. Healthy are the pods that are Ready, not being deleted, and not about to be deleted
//     because of an eviction less than two minutes ago. What is healthy beyond what is
//     wanted may be evicted; nothing may while no pod is expected.
//  4. If any of that cannot be worked out, nothing may be evicted. It is tried again with
//     a growing delay: what was wrong may be the API server, or a kind newer than what is
//     known of it, and its end brings no event of the budget.
//  5. The status is written on condition that the budget still is what it was worked out
//     from. Evictions change it meanwhile: it is never read again and forced, since that
//     would give back what was spent.
//     For the same reason a budget is not looked at before the cache shows the last write.
//  6. A write that changes no answer of the eviction API waits until 100 ms have passed
//     since the last one.
//  7. A pod that was marked with the condition DisruptionTarget but is there two minutes
//     later gets the condition set to False.
//
// Behaviour: specs/disruption-controller.md.
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
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/coalesce"
	"kcmd.dev/pkg/controllers/kit/concurrent"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/scaleclient"
)

// Descriptor describes disruption-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "disruption-controller",
		Aliases:        []string{"disruption"},
		Doc:            "Works out how many pods may be evicted under PodDisruptionBudgets.",
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
	}, func(*controller.Config) config { return config{} }, build)
}

// budgetResource is under what the tracker knows budgets.
var budgetResource = policyv1.Resource("poddisruptionbudgets")

// config is empty: no part of the configuration changes what the controller does.
type config struct{}

type disruptionController struct {
	client  kubernetes.Interface
	events  record.EventRecorder
	clock   clock.PassiveClock
	budgets policylisters.PodDisruptionBudgetLister
	pods    corelisters.PodLister
	synced  func(context.Context) bool

	budgetsOf index.Budgets
	podsOf    index.SelectedPods
	selectors *ownership.Selectors[*policyv1.PodDisruptionBudget]
	workloads *workloads
	writes    *coalesce.Writes[types.NamespacedName]
	tracker   *expectations.Tracker

	budgetLoop  *reconcile.Loop[types.NamespacedName]
	recheckLoop *reconcile.Loop[types.NamespacedName]
	staleLoop   *reconcile.Loop[types.NamespacedName]
}

func build(env controller.Env, _ config) (controller.Controller, error) {
	scales, err := scaleclient.New(env)
	if err != nil {
		return nil, err
	}
	c, err := newController(env, scales)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env, scales scale.ScalesGetter) (*disruptionController, error) {
	core, apps := env.Informers.Core().V1(), env.Informers.Apps().V1()
	budgets := env.Informers.Policy().V1().PodDisruptionBudgets()
	budgetsOf, err := index.NewBudgets(budgets.Informer())
	if err != nil {
		return nil, err
	}
	podsOf, err := index.NewSelectedPods(core.Pods().Informer())
	if err != nil {
		return nil, err
	}
	c := &disruptionController{
		client:    env.Client,
		events:    env.Events,
		clock:     env.Clock,
		budgets:   budgets.Lister(),
		pods:      core.Pods().Lister(),
		synced:    env.Informers.WaitUntilReady,
		budgetsOf: budgetsOf,
		podsOf:    podsOf,
		selectors: ownership.NewSelectors(parseSelector),
		workloads: &workloads{
			replicationControllers: core.ReplicationControllers().Lister(),
			replicaSets:            apps.ReplicaSets().Lister(),
			deployments:            apps.Deployments().Lister(),
			statefulSets:           apps.StatefulSets().Lister(),
			scales:                 newScaleReader(env.Mapper, scales, env.Discovery, env.Clock),
		},
		writes:  coalesce.New[types.NamespacedName](env.Clock),
		tracker: expectations.New(env.Clock, expectations.Stores{budgetResource: budgets.Informer().GetStore()}),
	}
	c.makeLoops(env)
	return c, c.watch(budgets.Informer(), core.Pods().Informer())
}

func (c *disruptionController) makeLoops(env controller.Env) {
	loop := func(queue string, work reconcile.Func[types.NamespacedName]) *reconcile.Loop[types.NamespacedName] {
		return reconcile.New(env, reconcile.Options[types.NamespacedName]{Queue: queue, Workers: 1}, work)
	}
	c.budgetLoop = loop("disruption", c.reconcile)
	c.recheckLoop = loop("disruption_recheck", c.recheck)
	c.staleLoop = loop("stale_pod_disruption", c.reconcileStale)
}

func parseSelector(budget *policyv1.PodDisruptionBudget) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(budget.Spec.Selector)
}

// Run implements controller.Controller.
func (c *disruptionController) Run(ctx context.Context) error {
	if !c.synced(ctx) {
		return nil
	}
	return concurrent.Run(ctx, c.budgetLoop.Run, c.recheckLoop.Run, c.staleLoop.Run)
}
