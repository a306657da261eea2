// Package endpointslice maintains the EndpointSlices of every Service that has a
// selector: the addresses, ports, conditions and hints of the pods the selector matches.
//
// The model, in rules:
//
//  1. What the slices of a Service should hold, and the writes that get them there, are
//     decided by k8s.io/endpointslice. This package decides when to call it, passes it a
//     state that is fit to decide on, and skips the call when there is nothing to decide.
//  2. There are three queues. Services are reconciled from endpoint_slice. Changes of pods
//     are mapped to Services from a queue of their own, so that pod notifications never
//     wait for it; equal changes are mapped once. Changes of nodes are gathered in a
//     queue of one key; a zone that becomes known is a change of the pods on the node.
//  3. Every slice this controller wrote or found is tracked (see slicewrites).
//     A Service is not reconciled while the cache lacks one of those writes, but as soon
//     as it shows them, and a slice that somebody else changes or deletes gets its Service
//     reconciled. One that somebody else has taken over is left alone, even if the cache does not
//     show that yet.
//  4. A Service whose inputs are those of its last reconcile that had nothing to write is
//     not handed to the library again (see inputs).
//  5. The nodes are known before the first Service is reconciled: without them the hints
//     of Services in topology mode would be removed.
//  6. An instance inherits the writes of its predecessor that the caches do not show yet,
//     the times of the last changes, and the memory of hints. The queues are not inherited:
//     every Service is replayed anyway, which makes replayed pods, slices and nodes
//     redundant.
//  7. The slices of a deleted Service are left to garbage collection, those of one that
//     lost its selector or became ExternalName are left alone.
//  8. A pod is left out because its node does not exist only after a live read.
//
// Behaviour: docs/specs/endpointslice-controller.md.
package endpointslice

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/endpointslice"
	"k8s.io/endpointslice/util"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/podchanges"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
)

// managedBy is the value of the managed-by label of our slices.
const managedBy = "endpointslice-controller.k8s.io"

// Descriptor describes endpointslice-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "endpointslice-controller",
		Aliases:        []string{"endpointslice"},
		ServiceAccount: "endpointslice-controller",
		EventSource:    "endpoint-slice-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("nodes"),
			discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		},
	}, configOf, newController)
}

// config is the part of the configuration that the controller depends on.
type config struct {
	concurrentSyncs int           // Services, and as many changes of pods, worked on at once
	maxEndpoints    int32         // endpoints in a slice
	batchPeriod     time.Duration // for which changes of pods are gathered
	preferSame      bool          // the gate PreferSameTrafficDistribution
}

func configOf(c *controller.Config) config {
	block := c.Controllers.EndpointSlice
	return config{
		concurrentSyncs: int(*block.ConcurrentSyncs),
		maxEndpoints:    *block.MaxEndpointsPerSlice,
		batchPeriod:     block.EndpointUpdatesBatchPeriod.Duration,
		preferSame:      gates.Enabled(c, gates.PreferSameTrafficDistribution),
	}
}

type endpointSliceController struct {
	controller.Env
	config config

	services  corelisters.ServiceLister
	confirmed *confirmedNodes
	selecting index.Services
	selected  index.SelectedPods
	podsOn    index.NodePods
	slices    index.EndpointSlices
	cached    discoverylisters.EndpointSliceLister // the same

	written  *slicewrites.Ledger
	inputs   *inputs
	topology *topology
	// triggers, pending and reconciler are set at the start of Run.
	triggers   *util.TriggerTimeTracker
	pending    *pendingTimes
	reconciler *endpointslice.Reconciler

	serviceLoop  *reconcile.Loop[types.NamespacedName]
	podLoop      *reconcile.Loop[podchanges.Change]
	topologyLoop *reconcile.Loop[string]
	// The queues are the loops, except in tests.
	serviceQueue  reconcile.Queue[types.NamespacedName]
	podQueue      reconcile.Queue[podchanges.Change]
	topologyQueue reconcile.Queue[string]
}

func newController(env controller.Env, config config) (*endpointSliceController, error) {
	c := assemble(env, config)
	c.makeLoops(env)
	c.watch()
	return c, nil
}

// assemble makes a controller without queues and handlers.
func assemble(env controller.Env, config config) *endpointSliceController {
	core := env.Informers.Core().V1()
	services, pods, nodes := core.Services(), core.Pods(), core.Nodes()
	slices := env.Informers.Discovery().V1().EndpointSlices()
	c := &endpointSliceController{
		Env:       env,
		config:    config,
		slices:    index.NewEndpointSlices(slices.Informer()),
		cached:    slices.Lister(),
		selected:  index.NewSelectedPods(pods.Informer()),
		podsOn:    index.NewNodePods(pods.Informer()),
		selecting: index.NewServices(services.Informer()),
		services:  services.Lister(),
		confirmed: &confirmedNodes{
			NodeLister: nodes.Lister(), live: env.Client.CoreV1().Nodes(), clock: env.Clock, answers: map[string]answer{},
		},
		written:  slicewrites.New(managedBy, env.Clock, slices.Informer().GetStore(), env.Client.DiscoveryV1()),
		inputs:   newInputs(nodes.Lister()),
		topology: &topology{nodes: nodes.Lister()},
	}
	registerMetrics(env.Metrics)
	return c
}

// makeLoops makes the three queues. Upstream names only the first; the others are named
// so that they can be told apart in status.
func (c *endpointSliceController) makeLoops(env controller.Env) {
	c.serviceLoop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue:      "endpoint_slice",
		Workers:    c.config.concurrentSyncs,
		Backoff:    reconcile.Backoff[types.NamespacedName](minRetryDelay, maxRetryDelay),
		MaxRetries: maxRetries,
	}, c.reconcile)
	c.podLoop = reconcile.New(env, reconcile.Options[podchanges.Change]{
		Queue:      "endpoint_slice_pods",
		Workers:    c.config.concurrentSyncs,
		MaxRetries: maxRetries,
	}, c.reconcilePodChange)
	c.topologyLoop = reconcile.New(env, reconcile.Options[string]{
		Queue:   "endpoint_slice_topology",
		Workers: 1,
	}, c.reconcileTopology)
	c.serviceQueue, c.podQueue, c.topologyQueue = c.serviceLoop, c.podLoop, c.topologyLoop
}

// Run implements controller.Controller.
func (c *endpointSliceController) Run(ctx context.Context) error {
	defer resetGauges()
	return reconcile.Run(ctx, c.Env, c.begin, c.serviceLoop.Run, c.podLoop.Run, c.topologyLoop.Run)
}
