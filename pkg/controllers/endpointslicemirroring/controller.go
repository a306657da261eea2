// Package endpointslicemirroring copies Endpoints that users manage, those of Services
// without selector, into EndpointSlices, so that whoever reads only slices sees them.
//
// The model, in rules:
//
//  1. Endpoints are mirrored while their Service exists and has no selector. Those labelled
//     skip-mirror and those that are leader election records are not mirrored.
//  2. Endpoints that are not mirrored have no slices of this controller: they are deleted,
//     once live reads have confirmed that.
//  3. Canonical subsets (see kit/subsets) make groups: one for each subset and family of
//     addresses. A group has one slice, and without valid addresses none. Of a subset at
//     most maxEndpoints addresses are mirrored, ready ones first (see desired).
//  4. From the groups and the slices there are, a plan is made without the API server (see
//     plan): which slices to create, overwrite and delete. Slices as they should be are left. Others
//     are written only as the cache shows them: somebody may have taken them over.
//  5. Every slice this controller wrote, or found to be right, is tracked (see
//     kit/slicewrites). Endpoints are not mirrored while the cache lacks one of those writes,
//     but as soon as it shows them; a slice that somebody else changes or deletes gets its
//     Endpoints mirrored again.
//  6. Replayed slices are queued too: only they lead to slices of Endpoints that stopped
//     being mirrored while nobody watched.
//  7. An instance inherits the writes of its predecessor that the caches do not show yet.
//
// Behaviour: docs/specs/endpointslice-mirroring-controller.md.
package endpointslicemirroring

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
)

// managedBy is the value of the managed-by label of our slices.
const managedBy = "endpointslicemirroring-controller.k8s.io"

// Descriptor describes endpointslice-mirroring-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "endpointslice-mirroring-controller",
		Aliases:        []string{"endpointslicemirroring"},
		ServiceAccount: "endpointslicemirroring-controller",
		EventSource:    "endpoint-slice-mirroring-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("endpoints"),
			discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		},
	}, configOf, newController)
}

// config is the part of the configuration that the controller depends on.
type config struct {
	concurrentSyncs int           // Endpoints mirrored at once
	maxEndpoints    int           // addresses mirrored of a subset
	batchPeriod     time.Duration // for which changes of slices are gathered
}

func configOf(c *controller.Config) config {
	block := c.Controllers.EndpointSliceMirroring
	return config{
		concurrentSyncs: int(*block.ConcurrentSyncs),
		maxEndpoints:    int(*block.MaxEndpointsPerSubset),
		batchPeriod:     block.EndpointUpdatesBatchPeriod.Duration,
	}
}

type mirroringController struct {
	controller.Env
	config  config
	metrics *metricSet

	cached    source
	endpoints corelisters.EndpointsLister
	slices    index.EndpointSlices

	written  *slicewrites.Ledger
	mirrored nameSet
	loop     *reconcile.Loop[types.NamespacedName]
	queue    reconcile.Queue[types.NamespacedName] // the loop, except in tests
}

func newController(env controller.Env, config config) (*mirroringController, error) {
	core := env.Informers.Core().V1()
	services, endpoints := core.Services(), core.Endpoints()
	slices := env.Informers.Discovery().V1().EndpointSlices()
	c := &mirroringController{
		Env:       env,
		config:    config,
		metrics:   newMetrics(env.Metrics),
		endpoints: endpoints.Lister(),
		slices:    index.NewEndpointSlices(slices.Informer()),
		cached:    cachedSource(services.Lister(), endpoints.Lister()),
		written:   slicewrites.New(managedBy, env.Clock, slices.Informer().GetStore(), env.Client.DiscoveryV1()),
		mirrored:  nameSet{all: sets.New[types.NamespacedName]()},
	}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue:      "endpoint_slice_mirroring",
		Workers:    config.concurrentSyncs,
		Backoff:    reconcile.Backoff[types.NamespacedName](minRetryDelay, maxRetryDelay),
		MaxRetries: maxRetries,
	}, c.reconcile)
	c.queue = c.loop
	c.watch(services.Informer(), endpoints.Informer(), slices.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *mirroringController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, c.begin, c.loop.Run)
}
