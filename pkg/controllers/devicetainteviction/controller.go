// Package devicetainteviction deletes pods that use devices with NoExecute taints if their claims do not
// tolerate those taints, or no longer tolerate them. Drivers taint devices in ResourceSlices.
// Administrators taint devices with DeviceTaintRules. The status of a rule shows the progress of its
// evictions.
//
// The model, in rules:
//
//  1. A device has the taints in the slices of the highest generation of its pool, and the taints of
//     the rules that select it. A slice of one node counts only for pods on that node, and so does
//     its generation. The controller keeps nothing else about slices and rules in memory.
//  2. A pod is evicted when the first of the taints of the devices allocated to its claims is no
//     longer tolerated. The API server stores everything that determines this time: when the taint
//     was added, and the tolerations that the scheduler copied into the allocation. A restart
//     therefore does not change the time.
//  3. An appointment is a pending eviction. It holds the UID of the pod, the time, and the reasons. A
//     pod with the same name and another UID is another pod.
//  4. The controller judges a pod by the current content of the caches, under one lock. After every
//     change of a slice, a rule, a claim or a pod, it uses indexes to find the affected pods, and
//     judges them. The last judgement is therefore correct, whatever the order of events. Judging
//     sends no requests. It begins when all caches have synced: before that, a device may only
//     seem to be untainted.
//  5. An eviction reads the pod live, sets a condition on it, and then deletes it. Owners of the pod
//     and disruption budgets use the condition. Both writes have the UID as a precondition. The
//     controller retries until it succeeds, the pod is gone, or the appointment is cancelled.
//  6. The controller computes the status of a rule from the appointments, at most every ten seconds.
//     For a rule with the effect None, the status shows what the rule would do with the effect
//     NoExecute. The controller computes it once for each change of the rule.
//  7. A new instance in the same process takes over the appointments and counts of its predecessor.
//     It can therefore cancel an eviction whose reason disappeared between the two instances, and
//     the counts continue.
//
// Behaviour: docs/specs/device-taint-eviction-controller.md.
package devicetainteviction

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	rulelisters "k8s.io/client-go/listers/resource/v1beta2"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// controllerName is also the name of the queue, and the field manager of applied objects.
const controllerName = "device-taint-eviction-controller"

var ruleResource = resourcev1beta2.SchemeGroupVersion.WithResource("devicetaintrules")

// Descriptor describes device-taint-eviction-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           controllerName,
		ServiceAccount: controllerName,
		DeletesInBulk:  true,
		EventSource:    controllerName,
		Gate:           gates.DRADeviceTaints,
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("pods"),
			resourcev1.SchemeGroupVersion.WithResource("resourceslices"),
			resourcev1.SchemeGroupVersion.WithResource("resourceclaims"),
		},
	}, configOf, newController)
}

type config struct {
	workers int
	// rules reports whether DeviceTaintRules are enabled.
	rules bool
	// podGroups reports whether claims may belong to PodGroups and be reserved for them.
	podGroups bool
}

func configOf(c *controller.Config) config {
	return config{
		workers:   int(*c.Controllers.DeviceTaintEviction.ConcurrentSyncs),
		rules:     gates.Enabled(c, gates.DRADeviceTaintRules),
		podGroups: gates.Enabled(c, gates.DRAWorkloadResourceClaims),
	}
}

// Resources implements controller.ResourceReader.
func (c config) Resources() []schema.GroupVersionResource {
	if !c.rules {
		return nil
	}
	return []schema.GroupVersionResource{ruleResource}
}

// item is a key of the queue: a pod to evict, or a rule whose status may change. The UID distinguishes it
// from other objects of the same name.
type item struct {
	types.NamespacedName
	uid  types.UID
	rule bool
}

type evictionController struct {
	controller.Env
	config
	pods    corelisters.PodLister
	inGroup cache.Indexer // pods, by index.PodsByGroup; without PodGroups there is none
	claims  resourcelisters.ResourceClaimLister
	using   cache.Indexer // claims, by index.ClaimsByDevice
	slices  cache.Indexer // by index.SlicesByPool and taintedIndex
	rules   rulelisters.DeviceTaintRuleLister
	metrics controllerMetrics
	loop    *reconcile.Loop[item]
	queue   reconcile.Queue[item] // the loop, except in tests

	mu           sync.Mutex
	begun        bool // nobody is judged before
	logger       klog.Logger
	taints       taints
	appointments appointments
	// evicted holds the UIDs of the pods whose eviction has ended and that the cache still shows: many, if a rule has
	// just evicted them and they take their grace periods to end.
	evicted map[types.NamespacedName]types.UID
	// counts holds the number of pods that were evicted because of each rule.
	counts map[types.UID]int
}

func newController(env controller.Env, config config) (*evictionController, error) {
	pods := env.Informers.Core().V1().Pods()
	devices := env.Informers.Resource().V1()
	slices, claims := devices.ResourceSlices().Informer(), devices.ResourceClaims()
	index.EnsureSlicesByPool(slices)
	index.Ensure(slices, taintedIndex, taintedKeys)
	index.EnsureClaimsByDevice(claims.Informer())
	c := &evictionController{
		Env:          env,
		config:       config,
		pods:         pods.Lister(),
		inGroup:      pods.Informer().GetIndexer(),
		claims:       claims.Lister(),
		using:        claims.Informer().GetIndexer(),
		slices:       slices.GetIndexer(),
		metrics:      newMetrics(env.Metrics),
		taints:       newTaints(),
		appointments: newAppointments(),
		evicted:      map[types.NamespacedName]types.UID{},
		counts:       map[types.UID]int{},
	}
	if config.podGroups {
		index.EnsurePodsByGroup(pods.Informer())
	}
	c.loop = reconcile.New(env, reconcile.Options[item]{
		Queue: controllerName, Workers: config.workers, Namespace: func(i item) string { return i.Namespace },
	}, c.reconcile)
	c.queue = c.loop
	c.watchPods(pods.Informer())
	c.watchClaims(claims.Informer())
	c.watchSlices(slices)
	if config.rules {
		rules := env.Informers.Resource().V1beta2().DeviceTaintRules()
		c.rules = rules.Lister()
		c.watchRules(rules.Informer())
	}
	return c, nil
}

// Run implements controller.Controller.
func (c *evictionController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, c.begin, c.loop.Run)
}
