// Package resourcepoolstatusrequest answers ResourcePoolStatusRequests: how many devices there are
// in the pools of a driver of dynamic resource allocation, and how many of them are allocated.
//
// The model, in rules:
//
//  1. A request is answered once, by its status. To ask again, create another one.
//  2. A pool is described by its ResourceSlices of the highest generation. Devices are allocated as
//     often as the allocations of ResourceClaims name them.
//  3. A pool is incomplete while it has fewer slices than they say. A request waits while a pool
//     that it would return is incomplete: it is reconciled when slices of its driver change.
//  4. That there is no pool is answered only if the API server confirms it: slices are often published
//     just before somebody asks.
//  5. Requests are deleted an hour after they were answered, or a day after they were created
//     without an answer. A pass at the start and then every ten minutes does so. What was answered since
//     the cache showed it without an answer stays.
//
// Slices are found by driver or pool and claims by pool, so that an answer costs as much as its pools have
// slices and claims.
//
// Behaviour: docs/specs/resourcepoolstatusrequest-controller.md.
package resourcepoolstatusrequest

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	resourcelisters "k8s.io/client-go/listers/resource/v1alpha3"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// resource is what the controller writes.
var resource = resourcev1alpha3.SchemeGroupVersion.WithResource("resourcepoolstatusrequests")

// Descriptor describes resourcepoolstatusrequest-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "resourcepoolstatusrequest-controller",
		ServiceAccount: "resourcepoolstatusrequest-controller",
		ClusterScoped:  true,
		Gate:           gates.DRAResourcePoolStatus,
		Requires: []schema.GroupVersionResource{
			resource,
			resourcev1.SchemeGroupVersion.WithResource("resourceslices"),
			resourcev1.SchemeGroupVersion.WithResource("resourceclaims"),
		},
	}, newController)
}

// Short names of the types of the API.
type (
	statusRequest = resourcev1alpha3.ResourcePoolStatusRequest
	requestStatus = resourcev1alpha3.ResourcePoolStatusRequestStatus
)

type statusController struct {
	controller.Env
	requests resourcelisters.ResourcePoolStatusRequestLister
	pending  cache.Indexer // requests, by pendingIndex
	slices   cache.Indexer // by index.SlicesByPool
	claims   cache.Indexer // by index.ClaimsByDevice
	written  *writes.Memory
	metrics  controllerMetrics
	loop     *reconcile.Loop[string]
	queue    reconcile.Queue[string] // the loop, except in tests
}

func newController(env controller.Env) (*statusController, error) {
	requests := env.Informers.Resource().V1alpha3().ResourcePoolStatusRequests()
	devices := env.Informers.Resource().V1()
	slices, claims := devices.ResourceSlices().Informer(), devices.ResourceClaims().Informer()
	index.Ensure(requests.Informer(), pendingIndex, pendingKeys)
	index.EnsureSlicesByPool(slices)
	index.EnsureClaimsByDevice(claims)
	c := &statusController{
		Env:      env,
		requests: requests.Lister(),
		pending:  requests.Informer().GetIndexer(),
		slices:   slices.GetIndexer(),
		claims:   claims.GetIndexer(),
		written:  writes.New(env.Clock, writes.Stores{resource.GroupResource(): requests.Informer().GetStore()}),
		metrics:  newMetrics(env.Metrics),
	}
	c.loop = reconcile.New(env, reconcile.Options[string]{Queue: "resourcepoolstatusrequest", Workers: 1}, c.reconcile)
	c.queue = c.loop
	c.watch(requests.Informer(), slices)
	return c, nil
}

// Run implements controller.Controller.
func (c *statusController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, nil, c.loop.Run, reconcile.Passes(c.Env, passPeriod, c.pass))
}
