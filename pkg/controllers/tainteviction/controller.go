// Package tainteviction deletes pods from nodes that have taints of the effect NoExecute which
// the pods do not tolerate, or no longer.
//
// The model, in rules:
//
//  1. A pod that does not tolerate one of the taints of its node is evicted at once. A pod that
//     tolerates all of them, some for a limited time, is evicted after the shortest of the times.
//     A pod that tolerates all of them without a limit stays. Of several tolerations for a
//     taint the first counts.
//  2. The time begins when the controller notices. From then on it does not change while the pod
//     keeps tolerating the taints for a limited time. It ends when it no longer has to be
//     counted: the taints are gone, or are tolerated without a limit.
//  3. What is pending is an appointment with one pod, by its UID, at a time. A pod of the same
//     name is another pod.
//  4. A pod is judged by what the caches of pods and nodes hold at that moment, under the lock of
//     the appointments. Every change of either cache is followed by a judgement, so the last one
//     is right, in whatever order events arrive. Judging sends nothing.
//  5. An instance continues the appointments of its predecessor in the process. What else it
//     finds when it begins has been counting since the taint was added and the pod was bound, as
//     far as the API shows that: a restart neither evicts a pod early nor forgets an eviction.
//  6. An eviction sets a condition, which owners of the pod and disruption budgets go by, and
//     then deletes the pod, both on condition of its UID. It is tried until it succeeds, the pod is
//     gone, or the appointment is cancelled.
//
// Behaviour: docs/specs/taint-eviction-controller.md.
package tainteviction

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes taint-eviction-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "taint-eviction-controller",
		ServiceAccount: "node-controller",
		DeletesInBulk:  true,
		EventSource:    "taint-eviction-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
		},
	}, configOf, newController)
}

type config struct {
	comparisonOperators bool // whether tolerations may have the operators Lt and Gt
	separate            bool // whether pods are evicted even if node-lifecycle-controller is disabled
	together            bool // whether they are only because it is enabled
}

// configOf also reads the gate of releases in which eviction can be a part of node-lifecycle-controller. While the gate
// is off, nothing is evicted unless that controller is enabled.
func configOf(c *controller.Config) config {
	separate := gates.Enabled(c, gates.SeparateTaintEvictionController)
	return config{
		comparisonOperators: gates.Enabled(c, gates.TaintTolerationComparisonOperators),
		separate:            separate,
		together:            !separate && c.ControllerEnabled("node-lifecycle-controller"),
	}
}

const (
	// judges is the number of nodes, and of pods, that are judged concurrently.
	judges = 8
	// evictors bounds the pods that are deleted concurrently.
	evictors = 50
)

type evictionController struct {
	controller.Env
	config
	pods         corelisters.PodLister
	podsOn       index.NodePods
	nodes        corelisters.NodeLister
	metrics      controllerMetrics
	appointments *appointments

	nodeLoop  *reconcile.Loop[string]
	podLoop   *reconcile.Loop[types.NamespacedName]
	evictions *reconcile.Loop[identity]

	// The queues are the loops, except in tests.
	nodeQueue     reconcile.Queue[string]
	podQueue      reconcile.Queue[types.NamespacedName]
	evictionQueue reconcile.Queue[identity]
}

// newController returns nil if nothing is evicted.
func newController(env controller.Env, config config) (*evictionController, error) {
	if !config.separate && !config.together {
		return nil, nil
	}
	core := env.Informers.Core().V1()
	c := &evictionController{
		Env:          env,
		config:       config,
		pods:         core.Pods().Lister(),
		podsOn:       index.NewNodePods(core.Pods().Informer()),
		nodes:        core.Nodes().Lister(),
		metrics:      newMetrics(env.Metrics),
		appointments: newAppointments(),
	}
	c.nodeLoop = reconcile.New(env,
		reconcile.Options[string]{Queue: "noexec_taint_node", Workers: judges}, c.reconcileNode)
	c.podLoop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue: "noexec_taint_pod", Workers: judges, Regardless: true,
	}, c.reconcilePod)
	c.evictions = reconcile.New(env, reconcile.Options[identity]{
		Queue: "noexec_taint_eviction", Workers: evictors, Namespace: func(i identity) string { return i.Namespace },
	}, c.evict)
	c.nodeQueue, c.podQueue, c.evictionQueue = c.nodeLoop, c.podLoop, c.evictions
	c.watch(core.Pods().Informer(), core.Nodes().Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *evictionController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, c.begin, c.nodeLoop.Run, c.podLoop.Run, c.evictions.Run)
}
