// Package servicecidr guards the ranges from which API servers allocate the cluster IPs of Services.
// It reports each ServiceCIDR as ready and prevents the deletion of a ServiceCIDR while an allocated
// address would be left without a range.
//
// The model, in rules:
//
//  1. The controller adds a finalizer to each ServiceCIDR and sets the condition Ready to True.
//  2. The controller removes the finalizer from a ServiceCIDR that is being deleted if each of its
//     ranges is part of a range of another ServiceCIDR, or if every allocated address in its ranges
//     is also in a range of another ServiceCIDR. Otherwise it sets Ready to False.
//  3. The controller keeps the finalizer for at least 10 seconds after the deletion, so that each API
//     server stops allocating addresses from the ServiceCIDR. Then it decides again.
//  4. For that decision it lists ServiceCIDRs and addresses from the API server after the 10 seconds,
//     and ServiceCIDRs once more after the addresses. It uses the caches only to determine when a
//     live list is worthwhile.
//  5. If two ServiceCIDRs are being deleted, only the one that was deleted first can rely on the
//     other. If each relied on the other, the controller would release both and leave addresses
//     without a range. None can rely on one that has no finalizer, which may be gone any moment.
//  6. Addresses come and go with Services. While no ServiceCIDR is being deleted, an address event
//     costs one comparison and enqueues nothing. So a failed reconcile is retried without limit: there
//     may be no event that would make up for a lost key.
//
// Behaviour: docs/specs/service-cidr-controller.md.
package servicecidr

import (
	"context"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	controllerName = "service-cidr-controller"
	workers        = 5
	// grace is how long a ServiceCIDR stays after its deletion.
	grace = 10 * time.Second

	finalizer protection.Finalizer = "networking.k8s.io/service-cidr-finalizer"
)

// Descriptor describes service-cidr-controller.
func Descriptor() controller.Descriptor {
	cidrs := networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
	addresses := networkingv1.SchemeGroupVersion.WithResource("ipaddresses")
	return controller.DescribeFixed(controller.Descriptor{
		Name:           controllerName,
		ServiceAccount: "service-cidrs-controller",
		ClusterScoped:  true,
		EventSource:    controllerName,
		Gate:           gates.MultiCIDRServiceAllocator,
		Requires:       []schema.GroupVersionResource{cidrs, addresses},
		Partial:        []schema.GroupVersionResource{addresses}, // only metadata is needed
	}, newController)
}

type cidrController struct {
	controller.Env
	cidrs     networkinglisters.ServiceCIDRLister
	addresses cache.GenericLister
	ranges    *ranges
	holders   *holders
	queue     reconcile.Queue[string] // the loop, except in tests
	loop      *reconcile.Loop[string]
}

func newController(env controller.Env) (*cidrController, error) {
	cidrs := env.Informers.Networking().V1().ServiceCIDRs()
	addresses := env.Informers.MetadataFor(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"))
	c := &cidrController{
		Env:       env,
		cidrs:     cidrs.Lister(),
		addresses: addresses.Lister(),
		ranges:    &ranges{all: map[string]serviceRange{}},
		holders:   &holders{byCIDR: map[string]string{}},
	}
	c.loop = reconcile.New(env, reconcile.Options[string]{Queue: "ipaddresses", Workers: workers}, c.reconcile)
	c.queue = c.loop
	c.watch(cidrs.Informer(), addresses.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *cidrController) Run(ctx context.Context) error { return c.loop.Run(ctx) }
