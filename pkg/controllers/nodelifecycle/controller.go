// Package nodelifecycle observes the heartbeats of nodes. When a node stops sending heartbeats, the
// controller updates the conditions of the node and of its pods. It taints nodes that are not ready, so
// that pods are not scheduled there and running pods are evicted. The rate of tainting depends on how much
// of a zone is affected.
//
// The model, in rules:
//
//  1. A heartbeat is a renewal of the node's Lease or a new heartbeat time in its Ready condition.
//     The controller uses the time at which it observes the heartbeat, and not the clock of the
//     node. A renewal costs one comparison and enqueues nothing.
//  2. Every few seconds, and when the grace period of a node ends, a pass looks for nodes that have
//     been silent for longer. Their conditions become Unknown, and their pods are marked as not ready.
//  3. Silence counts only while the instance is able to observe heartbeats. It counts from the start
//     of the instance, and from the end of any interruption of its own view (see sight). If the
//     cached Leases may be stale, the instance reads them live before it decides.
//  4. The NoSchedule taints of a node always match its conditions.
//  5. A node that is not ready gets a NoExecute taint when it reaches the head of the queue of its
//     zone. The state of the zone determines the rate of the queue. Once a node has the taint, the
//     taint follows its condition immediately, and is removed when the node is ready.
//  6. If no node of any zone is ready, the nodes are unlikely to be the cause. The controller removes
//     the taints that evict pods from all nodes, and adds none. When a node is ready again, all
//     nodes get a new grace period.
//  7. A key of the queue is one node. One patch makes all changes to the taints of a node. It fails
//     if the node has changed concurrently.
//  8. A new instance in the same process takes over the state of its predecessor: the known nodes,
//     when each was last heard of, and the states, queues and rates of zones. A restart never
//     removes a taint only to add it again.
//
// taint-eviction-controller evicts the pods that do not tolerate the taints, regardless of the gate
// SeparateTaintEvictionController.
//
// Behaviour: docs/specs/node-lifecycle-controller.md.
package nodelifecycle

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// nodeWorkers is the number of nodes whose taints and labels are changed concurrently.
	nodeWorkers = 8
	// podWorkers is the number of pods that are marked concurrently because they were bound.
	podWorkers = 4
	// parallelism is the number of silent nodes that are handled concurrently, and of nodes
	// whose pods are marked.
	parallelism = 8
	// firstRetry and lastRetry are the limits of the backoff for a node.
	firstRetry, lastRetry = 5 * time.Millisecond, 10 * time.Second
	// tick is the interval for checking whether a pass is due.
	tick = 500 * time.Millisecond
	// grantPeriod is the interval for releasing nodes from the queues of their zones.
	grantPeriod = 100 * time.Millisecond
)

// Descriptor describes node-lifecycle-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "node-lifecycle-controller",
		Aliases:        []string{"nodelifecycle"},
		ServiceAccount: "node-controller",
		EventSource:    "node-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
			coordinationv1.SchemeGroupVersion.WithResource("leases"),
		},
	}, configOf, newController)
}

type config struct {
	period       time.Duration // between two passes
	grace        time.Duration // how long a node may be silent
	startupGrace time.Duration // the same, for a node without a Ready condition
	rates        rates
}

func configOf(c *controller.Config) config {
	l := c.Controllers.NodeLifecycle
	return config{
		period:       l.NodeMonitorPeriod.Duration,
		grace:        l.NodeMonitorGracePeriod.Duration,
		startupGrace: l.NodeStartupGracePeriod.Duration,
		rates: rates{
			normal:    *l.NodeEvictionRate,
			disrupted: *l.SecondaryNodeEvictionRate,
			large:     int(*l.LargeClusterSizeThreshold),
			unhealthy: *l.UnhealthyZoneThreshold,
		},
	}
}

type lifecycleController struct {
	controller.Env
	config
	pods    corelisters.PodLister
	podsOn  index.NodePods
	leases  coordinationlisters.LeaseNamespaceLister
	metrics controllerMetrics
	cluster *cluster

	// The queues are the loops, except in tests.
	nodeQueue reconcile.Queue[string]
	nodeLoop  *reconcile.Loop[string]
	podQueue  reconcile.Queue[types.NamespacedName]
	podLoop   *reconcile.Loop[types.NamespacedName]
	markQueue reconcile.Queue[string]
	markLoop  *reconcile.Loop[string]
}

func newController(env controller.Env, config config) (*lifecycleController, error) {
	core := env.Informers.Core().V1()
	// All Leases, and not only those of nodes: garbage-collector-controller, which watches all
	// kinds, then shares this cache, and a renewal is received and decoded once.
	leases := env.Informers.Coordination().V1().Leases()
	c := &lifecycleController{
		Env:     env,
		config:  config,
		pods:    core.Pods().Lister(),
		podsOn:  index.NewNodePods(core.Pods().Informer()),
		leases:  leases.Lister().Leases(corev1.NamespaceNodeLease),
		metrics: newMetrics(env.Metrics),
	}
	c.cluster = newCluster(config, c.leaseOf)
	// The backoff is that of each node: a limit for all together would delay the last of many nodes for minutes.
	ofNode := func(queue string, workers int) reconcile.Options[string] {
		backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
		return reconcile.Options[string]{Queue: queue, Workers: workers, Backoff: backoff}
	}
	c.nodeLoop = reconcile.New(env, ofNode("node_lifecycle_controller", nodeWorkers), c.reconcileNode)
	c.podLoop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue: "node_lifecycle_controller_pods", Workers: podWorkers,
	}, c.reconcilePod)
	c.markLoop = reconcile.New(env, ofNode("node_lifecycle_controller_not_ready", parallelism), c.markPodsOf)
	c.nodeQueue, c.podQueue, c.markQueue = c.nodeLoop, c.podLoop, c.markLoop
	c.watch(core.Nodes().Informer(), core.Pods().Informer(), leases.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *lifecycleController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, c.begin, c.nodeLoop.Run, c.podLoop.Run, c.markLoop.Run,
		reconcile.Passes(c.Env, min(tick, c.period), c.passIfDue),
		reconcile.Passes(c.Env, grantPeriod, func(context.Context, context.Context) { c.grant() }))
}
