// Package podgc deletes pods that nobody else will: ended ones beyond a number, and those
// that no kubelet is left to finish.
//
// The model, in rules:
//
//  1. Every 20 seconds it passes over the pods that may be concerned, in this order.
//  2. Ended pods beyond the threshold, evicted ones first, then the oldest.
//  3. Pods being deleted on nodes that are not ready and tainted out-of-service.
//  4. Pods bound to nodes that do not exist. A node that is missing is put into
//     quarantine for 40 seconds and then asked for at the API server, so that neither a
//     stale cache nor a node that is registered again costs pods. One that was there at
//     any pass, or while nobody looked, has 40 seconds from when it is missed again.
//  5. Pods being deleted that were never scheduled.
//  6. A pod is deleted with grace period 0, after its phase was set to Failed if it had
//     not ended: its owner counts on that. If that fails, it is not deleted.
//
// Which pods are concerned is read from indexes, so that a pass over a healthy cluster
// costs next to nothing. Behaviour: specs/pod-garbage-collector-controller.md.
package podgc

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// passPeriod is the time between the end of a pass and the next one.
const passPeriod = 20 * time.Second

// Descriptor describes pod-garbage-collector-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "pod-garbage-collector-controller",
		Aliases:        []string{"podgc"},
		Doc:            "Deletes pods that have ended, are orphaned or cannot be scheduled any more.",
		ServiceAccount: "pod-garbage-collector",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
		},
	}, configOf, build)
}

type config struct{ threshold int }

func configOf(c *controller.Config) config {
	return config{threshold: int(*c.Controllers.PodGarbageCollector.TerminatedPodThreshold)}
}

type podGC struct {
	config
	client     kubernetes.Interface
	pods       cache.Indexer
	nodes      corelisters.NodeLister
	synced     func(context.Context) bool
	fenced     <-chan struct{}
	clock      clock.WithTicker
	metrics    controllerMetrics
	quarantine *quarantine

	predecessor func() any
	begun       bool
}

func build(env controller.Env, c config) (controller.Controller, error) {
	gc, err := newController(env, c)
	if err != nil {
		return nil, err
	}
	return gc, nil
}

func newController(env controller.Env, c config) (*podGC, error) {
	pods, nodes := env.Informers.Core().V1().Pods().Informer(), env.Informers.Core().V1().Nodes()
	if err := addIndexes(pods); err != nil {
		return nil, err
	}
	return &podGC{
		config:     c,
		client:     env.Client,
		pods:       pods.GetIndexer(),
		nodes:      nodes.Lister(),
		synced:     env.Informers.WaitUntilReady,
		fenced:     env.Fenced,
		clock:      env.Clock,
		metrics:    newMetrics(env.Metrics),
		quarantine: newQuarantine(),

		predecessor: env.Predecessor,
	}, nil
}

// Run implements controller.Controller. A pass that is under way when ctx ends finishes
// the pods it has begun with.
func (gc *podGC) Run(ctx context.Context) error {
	if !gc.synced(ctx) {
		return nil
	}
	gc.begin()
	working, finish := reconcile.WorkContext(ctx, gc.fenced)
	defer finish()
	for {
		gc.pass(ctx, working)
		timer := gc.clock.NewTimer(passPeriod)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// begin takes over what a predecessor left. The next pass follows at once.
func (gc *podGC) begin() {
	gc.quarantine.adopt(gc.predecessor(), gc.clock.Now())
	gc.begun = true
}

// HandOver implements controller.HandsOver: without the quarantine, orphaned pods would
// stay for longer. An instance that did not begin passes on what it was given.
func (gc *podGC) HandOver() any {
	if !gc.begun {
		return gc.predecessor()
	}
	return gc.quarantine.state(gc.clock.Now())
}

// pass looks once for pods to delete. No further pod is begun with once ctx has ended;
// requests are made under working.
func (gc *podGC) pass(ctx, working context.Context) {
	gc.deleteAll(ctx, working, gc.excessive(), reasonTerminated)
	gc.deleteAll(ctx, working, gc.outOfService(ctx), reasonOutOfService)
	gc.deleteAll(ctx, working, gc.orphaned(ctx, working), reasonOrphaned)
	gc.deleteAll(ctx, working, gc.indexed(terminatingIndex, unscheduled), reasonUnscheduled)
}

// excessive are the ended pods beyond the threshold that are not being deleted already.
func (gc *podGC) excessive() []*corev1.Pod {
	if gc.threshold <= 0 {
		return nil
	}
	return excess(gc.indexed(terminatedIndex, terminated), gc.threshold)
}

// outOfService are the pods being deleted on nodes that will not finish them.
func (gc *podGC) outOfService(ctx context.Context) []*corev1.Pod {
	var found []*corev1.Pod
	for _, name := range gc.pods.ListIndexFuncValues(terminatingIndex) {
		if name == unscheduled {
			continue
		}
		node, err := gc.nodes.Get(name)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Pods are being deleted on a node that is not known", "node", name, "err", err)
			continue
		}
		if isOutOfService(node) {
			found = append(found, gc.indexed(terminatingIndex, name)...)
		}
	}
	inOrder(found)
	return found
}

// orphaned are the pods of nodes that are known to be gone.
func (gc *podGC) orphaned(ctx, working context.Context) []*corev1.Pod {
	now := gc.clock.Now()
	gc.quarantine.release(gc.isShown)
	for _, name := range gc.pods.ListIndexFuncValues(index.PodsByNode) {
		if !gc.isShown(name) {
			gc.quarantine.add(name, now)
		}
	}
	var found []*corev1.Pod
	for _, name := range gc.quarantine.due(now) {
		if ctx.Err() != nil {
			return nil
		}
		gone, err := gc.isGone(working, name)
		if err != nil {
			klog.FromContext(ctx).Error(err, "A missing node could not be looked up, its pods stay", "node", name)
		}
		if gone {
			found = append(found, gc.indexed(index.PodsByNode, name)...)
		}
	}
	return found
}

// isShown reports that the cache shows a node. Its lister fails only for one it does not.
func (gc *podGC) isShown(name string) bool {
	_, err := gc.nodes.Get(name)
	return err == nil
}

// isGone asks the API server whether a node that the cache does not show exists.
func (gc *podGC) isGone(ctx context.Context, name string) (bool, error) {
	if gc.isShown(name) {
		return false, nil
	}
	_, err := gc.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// indexed returns the pods that an index files under a key.
func (gc *podGC) indexed(name, key string) []*corev1.Pod {
	objects, err := gc.pods.ByIndex(name, key)
	if err != nil {
		return nil // the index was added when the controller was built
	}
	found := make([]*corev1.Pod, 0, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			found = append(found, pod)
		}
	}
	return found
}
