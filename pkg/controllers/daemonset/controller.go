// Package daemonset is daemonset-controller: it keeps one pod of each DaemonSet on every
// node that is eligible, and rolls out changes of the template.
//
// The model, in rules:
//
//  1. Whether a node should run a pod, and whether a pod that is there may stay, depends
//     on the node's name, labels and taints only; eligibility.go. The pod is pinned to its
//     node by a node affinity, and the scheduler binds it; pinning.go.
//  2. A reconcile looks at caches once: it claims the revisions and pods of a set and
//     files the pods under nodes. Everything is decided on this view; view.go.
//  3. Manage creates missing pods and deletes surplus, finished and failed ones; manage.go.
//     Pods that keep failing on a node are replaced ever more slowly; failures.go.
//  4. If manage had nothing to do, a rolling update deletes old pods, or creates new ones
//     beside them, within maxUnavailable or maxSurge; rolling.go. Manage does the rest.
//  5. Each template of a set is kept as a ControllerRevision, whose hash labels its pods;
//     history.go and revisions.go.
//  6. While the caches do not show what was written for a set, no pod is touched (package
//     expectations). With the gate StaleControllerConsistencyDaemonSet nothing at all is
//     done until they show every create, patch and update (KEP-5647).
//  7. The status counts nodes, as they were before rules 3 and 4; status.go.
//  8. A changed node is looked at in a queue of its own, which finds the sets that have to
//     act on it; nodes.go.
//  9. Unseen writes and the backoff of failed pods are handed over to the next instance.
//
// See specs/daemonset-controller.md.
package daemonset

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	pkgconfig "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/coalesce"
	"kcmd.dev/pkg/controllers/kit/concurrent"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/history"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

var (
	daemonSetKind     = appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	daemonSetResource = appsv1.Resource("daemonsets")
)

// Descriptor describes daemonset-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "daemonset-controller",
		Aliases:        []string{"daemonset"},
		Doc:            "Runs one pod of each DaemonSet on every eligible node.",
		ServiceAccount: "daemon-set-controller",
		EventSource:    "daemonset-controller",
		Requires: []schema.GroupVersionResource{
			appsv1.SchemeGroupVersion.WithResource("daemonsets"),
			appsv1.SchemeGroupVersion.WithResource("controllerrevisions"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
		},
	}, configOf, build)
}

// config is the part of the configuration that the controller depends on.
type config struct {
	concurrentSyncs     int  // DaemonSets, and as many nodes, worked on at once
	requireFresh        bool // whether a reconcile waits for caches that show all writes
	comparisonOperators bool // whether tolerations may have the operators Lt and Gt
}

func configOf(c *controller.Config) config {
	return config{
		concurrentSyncs:     int(*c.Controllers.DaemonSet.ConcurrentSyncs),
		requireFresh:        pkgconfig.Enabled(c, pkgconfig.StaleControllerConsistencyDaemonSet),
		comparisonOperators: pkgconfig.Enabled(c, pkgconfig.TaintTolerationComparisonOperators),
	}
}

type daemonSetController struct {
	config      config
	clock       clock.WithTicker
	client      kubernetes.Interface
	events      record.EventRecorder
	metrics     *controllerMetrics
	predecessor func() any

	sets    appslisters.DaemonSetLister
	nodes   corelisters.NodeLister
	pods    index.Pods
	podsOn  index.NodePods
	history history.Control

	selectors  *ownership.Selectors[*appsv1.DaemonSet]
	blueprints *blueprints
	control    pods.Tracked
	tracker    *expectations.Tracker
	failures   failures
	writes     *coalesce.Writes[types.NamespacedName]

	loop     *reconcile.Loop[types.NamespacedName]
	nodeLoop *reconcile.Loop[string]
	queue    queue
}

// queue is the part of the loop that takes keys.
type queue interface {
	Enqueue(reconcile.Lane, types.NamespacedName)
	AddAfter(types.NamespacedName, time.Duration)
}

func build(env controller.Env, config config) (controller.Controller, error) {
	c, err := newController(env, config)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env, config config) (*daemonSetController, error) {
	apps, core := env.Informers.Apps().V1(), env.Informers.Core().V1()
	c := &daemonSetController{
		config:      config,
		clock:       env.Clock,
		client:      env.Client,
		events:      env.Events,
		metrics:     newMetrics(env.Metrics),
		predecessor: env.Predecessor,
		sets:        apps.DaemonSets().Lister(),
		nodes:       core.Nodes().Lister(),
		selectors:   ownership.NewSelectors(selectorOf),
		blueprints:  newBlueprints(config.comparisonOperators),
		failures:    newFailures(env.Clock),
		writes:      coalesce.New[types.NamespacedName](env.Clock),
		tracker: expectations.New(env.Clock, expectations.Stores{
			pods.Resource:     core.Pods().Informer().GetStore(),
			daemonSetResource: apps.DaemonSets().Informer().GetStore(),
		}),
	}
	c.control = pods.Tracked{Control: pods.Control{Client: env.Client, Events: env.Events}, Tracker: c.tracker}
	var err error
	if c.pods, err = index.NewPods(core.Pods().Informer()); err != nil {
		return nil, err
	}
	if c.podsOn, err = index.NewNodePods(core.Pods().Informer()); err != nil {
		return nil, err
	}
	if c.history, err = history.NewControl(env.Client, apps.ControllerRevisions().Informer()); err != nil {
		return nil, err
	}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue:   "daemonset",
		Workers: config.concurrentSyncs,
	}, c.reconcile)
	c.queue = c.loop
	c.nodeLoop = reconcile.New(env, reconcile.Options[string]{
		Queue:   "daemonset-node-updates",
		Workers: config.concurrentSyncs,
	}, c.reconcileNode)
	return c, c.watch(apps, core)
}

func selectorOf(ds *appsv1.DaemonSet) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(ds.Spec.Selector)
}

// memory is what one instance hands over to the next.
type memory struct {
	unseen   expectations.State
	failures failures
}

// Run implements controller.Controller.
func (c *daemonSetController) Run(ctx context.Context) error {
	if inherited, ok := c.predecessor().(memory); ok {
		c.tracker.Adopt(inherited.unseen)
		c.failures = inherited.failures
	}
	expire := func(ctx context.Context) error {
		c.failures.expire(ctx, c.clock)
		return nil
	}
	return concurrent.Run(ctx, c.loop.Run, c.nodeLoop.Run, expire)
}

// HandOver implements controller.HandsOver: what was written and may not be in the caches
// yet, and which failed pods have to wait. Without the latter a restart would replace
// every failed pod at once.
func (c *daemonSetController) HandOver() any {
	return memory{unseen: c.tracker.HandOver(), failures: c.failures}
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
