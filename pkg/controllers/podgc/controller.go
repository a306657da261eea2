// Package podgc deletes pods that nothing else deletes: finished ones beyond a threshold, and
// those whose kubelet no longer exists.
//
// The model, in rules:
//
//  1. Every 20 seconds a pass processes these pods, in this order:
//  2. Finished pods beyond the threshold, evicted ones first, then the oldest.
//  3. Pods being deleted on nodes that are not ready and tainted out-of-service, as a live read
//     confirms.
//  4. Pods bound to nodes that do not exist. A missing node is put into quarantine for 40
//     seconds and then read live, so that neither a stale cache nor the re-registration of a
//     node costs pods. The 40 seconds start again if a pass finds the node, after it was read,
//     or if no passes ran for a while.
//  5. Pods being deleted that were never scheduled.
//  6. A pod is deleted with grace period 0, after its phase was set to Failed if it had not
//     finished, which its owner relies on. If that fails, it is not deleted. Another pod that
//     has got its name is left alone, and so are the pods of a node that comes back during the
//     pass.
//
// The pods are found through indexes, so that a pass over a healthy cluster costs next to
// nothing. Behaviour: docs/specs/pod-garbage-collector-controller.md.
package podgc

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes pod-garbage-collector-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "pod-garbage-collector-controller",
		Aliases:        []string{"podgc"},
		ServiceAccount: "pod-garbage-collector",
		DeletesInBulk:  true,
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
		},
	}, configOf, newController)
}

type config struct{ threshold int }

func configOf(c *controller.Config) config {
	return config{threshold: int(*c.Controllers.PodGarbageCollector.TerminatedPodThreshold)}
}

type podGC struct {
	controller.Env
	config
	pods       cache.Indexer
	nodes      corelisters.NodeLister
	metrics    controllerMetrics
	quarantine *quarantine
}

func newController(env controller.Env, c config) (*podGC, error) {
	pods, nodes := env.Informers.Core().V1().Pods().Informer(), env.Informers.Core().V1().Nodes()
	addIndexes(pods)
	return &podGC{
		Env:        env,
		config:     c,
		pods:       pods.GetIndexer(),
		nodes:      nodes.Lister(),
		metrics:    newMetrics(env.Metrics),
		quarantine: newQuarantine(),
	}, nil
}

// Run implements controller.Controller.
func (gc *podGC) Run(ctx context.Context) error {
	return reconcile.Run(ctx, gc.Env, gc.begin, reconcile.Passes(gc.Env, passPeriod, gc.pass))
}

// begin takes over the state of the predecessor. The next pass follows at once.
func (gc *podGC) begin(context.Context) error {
	if left, ok := controller.TakeOver(gc.Env, gc); ok {
		gc.quarantine.takeOver(left, gc.Clock.Now())
	}
	return nil
}

// HandOver implements controller.HandsOver: without the quarantine, orphaned pods would exist
// longer.
func (gc *podGC) HandOver() handover { return gc.quarantine.state(gc.Clock.Now()) }
