// Package daemonset is daemonset-controller: it keeps one pod of each DaemonSet on every
// eligible node, and rolls out changes of the template.
//
// The model, in rules:
//
//  1. Whether a node should run a pod, and whether an existing pod may stay, depends only on
//     the node's name, labels and taints; eligibility.go. The pod is pinned to its node by a
//     node affinity, and the scheduler binds it; pinning.go.
//  2. A reconcile reads the caches once: it claims the revisions and pods of a set and groups
//     the pods by node. All decisions are based on this observation; observe.go.
//  3. Manage creates missing pods and deletes surplus, finished and failed ones; manage.go.
//     Pods that keep failing on a node are replaced with backoff; failures.go.
//  4. If manage had nothing to do, a rolling update deletes old pods, or creates new ones
//     beside them, within maxUnavailable or maxSurge; rolling.go. Manage does the rest.
//  5. Each template of a set is stored in a ControllerRevision, whose hash is a label of its
//     pods; history.go and revisions.go.
//  6. While the caches do not show all writes for a set, its pods are not changed (package
//     writes). With the gate StaleControllerConsistencyDaemonSet the set is not reconciled at
//     all until they show every create, patch and update (KEP-5647).
//  7. The status counts nodes, as observed before rules 3 and 4; status.go.
//  8. Changed and deleted nodes have their own queue, whose reconcile enqueues the sets that have
//     to act on the node; nodes.go.
//  9. Unseen writes and the backoff of failed pods are handed over to the next instance.
//
// See docs/specs/daemonset-controller.md.
package daemonset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/workloads/history"
	"kcmd.dev/pkg/controllers/kit/writes"
)

var (
	daemonSetKind     = appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	daemonSetResource = appsv1.Resource("daemonsets")
	revisionResource  = appsv1.Resource("controllerrevisions")
)

// Descriptor describes daemonset-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "daemonset-controller",
		Aliases:        []string{"daemonset"},
		ServiceAccount: "daemon-set-controller",
		EventSource:    "daemonset-controller",
		Requires: []schema.GroupVersionResource{
			appsv1.SchemeGroupVersion.WithResource("daemonsets"),
			appsv1.SchemeGroupVersion.WithResource("controllerrevisions"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
		},
	}, configOf, newController)
}

// config is what the controller reads of the configuration.
type config struct {
	concurrentSyncs     int  // DaemonSets, and as many nodes, reconciled concurrently
	requireFresh        bool // whether a reconcile waits until the caches show all writes
	comparisonOperators bool // whether tolerations may have the operators Lt and Gt
}

func configOf(c *controller.Config) config {
	return config{
		concurrentSyncs:     int(*c.Controllers.DaemonSet.ConcurrentSyncs),
		requireFresh:        gates.Enabled(c, gates.StaleControllerConsistencyDaemonSet),
		comparisonOperators: gates.Enabled(c, gates.TaintTolerationComparisonOperators),
	}
}

type daemonSetController struct {
	controller.Env
	config config

	owners     *owners.Owners[*appsv1.DaemonSet]
	sets       appslisters.DaemonSetLister
	nodes      corelisters.NodeLister
	podIndex   index.Pods
	podsOn     index.NodePods
	history    history.Control
	blueprints *blueprints
	podControl pods.Tracked
	failures   failures
	nodeQueue  reconcile.Queue[string]
	nodeLoop   *reconcile.Loop[string]
	former     formerNodes
}

func newController(env controller.Env, cfg config) (*daemonSetController, error) {
	apps, core := env.Informers.Apps().V1(), env.Informers.Core().V1()
	c := &daemonSetController{
		Env:        env,
		config:     cfg,
		sets:       apps.DaemonSets().Lister(),
		nodes:      core.Nodes().Lister(),
		podIndex:   index.NewPods(core.Pods().Informer()),
		podsOn:     index.NewNodePods(core.Pods().Informer()),
		history:    history.NewControl(env.Client, apps.ControllerRevisions().Informer()),
		blueprints: newBlueprints(apps.DaemonSets().Lister(), cfg.comparisonOperators),
		failures:   newFailures(env.Clock),
	}
	c.owners = owners.New(env, owners.Options[*appsv1.DaemonSet]{
		Kind:     daemonSetKind,
		Resource: daemonSetResource,
		Informer: apps.DaemonSets().Informer(),
		Live:     c.live,
		Selector: selectorOf,
		DependentStores: writes.Stores{
			pods.Resource:    core.Pods().Informer().GetStore(),
			revisionResource: apps.ControllerRevisions().Informer().GetStore(),
		},
		RequireFresh:  cfg.requireFresh,
		OnStale:       writes.NewStaleSyncs(env.Metrics, "daemonset_controller").Skipped,
		MayIgnoreEcho: mayBeEcho,
		OnGone:        c.blueprints.forget,
		Loop:          reconcile.Options[types.NamespacedName]{Queue: "daemonset", Workers: cfg.concurrentSyncs},
	}, c.reconcile)
	c.podControl = pods.NewTracked(env, c.owners.Writes)
	c.podControl.Counts = c.owners.Selects
	c.nodeLoop = reconcile.New(env, reconcile.Options[string]{
		Queue: "daemonset-node-updates", Workers: cfg.concurrentSyncs,
	}, c.reconcileNode)
	c.nodeQueue = c.nodeLoop
	c.watch(apps, core)
	return c, nil
}

func (c *daemonSetController) live(ctx context.Context, namespace, name string) (*appsv1.DaemonSet, error) {
	return c.Client.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
}

func selectorOf(ds *appsv1.DaemonSet) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(ds.Spec.Selector)
}

// handover is the state that an instance hands over to the next.
type handover struct {
	writes   writes.State
	failures failures
}

// Run implements controller.Controller.
func (c *daemonSetController) Run(ctx context.Context) error {
	if left, ok := controller.TakeOver(c.Env, c); ok {
		c.takeOver(left)
	}
	expire := func(ctx context.Context) error {
		c.failures.expire(ctx, c.Clock)
		return nil
	}
	return concurrent.Run(ctx, c.owners.Loop.Run, c.nodeLoop.Run, expire)
}

func (c *daemonSetController) takeOver(left handover) {
	c.owners.Writes.TakeOver(left.writes)
	c.failures = left.failures
}

// HandOver implements controller.HandsOver: writes that the caches may not show yet, and the
// backoff of failed pods. Without the latter a restart would replace every failed pod at once.
func (c *daemonSetController) HandOver() handover {
	return handover{writes: c.owners.Writes.HandOver(), failures: c.failures}
}
