// Package nodeipam gives each node a range of pod addresses out of each range of the cluster.
//
// The model, in rules:
//
//  1. A range of the cluster is divided into blocks of one size (see blockSet). A node without
//     podCIDRs gets the next free block of each range of the cluster, of all of them or of none.
//     Blocks are given out in order, and freed ones again only after all others.
//  2. A block is free if nothing holds it. Service ranges hold blocks for ever. A node holds
//     those that its podCIDRs overlap, whoever set them, from when it is seen until it is
//     deleted; not only until its deletion begins, because a finalizer may keep it alive. A
//     block with two holders is free when both are gone.
//  3. A block that a node has been chosen for is held by that incarnation of the node, before it
//     is written and until the cache shows the podCIDRs of the node. If it is unknown whether a
//     write was executed, it stays held, whatever becomes of later writes, and the same blocks are
//     written again. So a cache that is behind never leads to another choice. If the ranges of the
//     cluster have been edited since, others are written, and the former ones stay held as long.
//  4. The podCIDRs of a node never change: the API server accepts them once. Writes carry the UID of
//     the node, so that one that is late does not meet a namesake.
//  5. Nothing is chosen before the caches are complete, contain the writes of the predecessor,
//     and have been shown to the handlers, which record what nodes hold; see controller.Scope.
//     What the caches may not show yet, and where to continue, is handed over. A node that was
//     handed over, or that a list after a break of the watch lacks, is only forgotten after a
//     live read.
//  6. When no block is free, nodes wait. One is retried for each block that is freed, and all of
//     them with backoff.
//
// The event of a node whose podCIDRs are known costs a comparison, and queues nothing.
//
// Behaviour: docs/specs/node-ipam-controller.md.
package nodeipam

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const workers = 30

// Descriptor describes node-ipam-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "node-ipam-controller",
		Aliases:        []string{"nodeipam"},
		ServiceAccount: "node-controller",
		ClusterScoped:  true,
		EventSource:    "cidrAllocator",
		Requires:       []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("nodes")},
	}, configOf, newController)
}

// maxRanges is how many ranges the cluster can have, and its Services: one of each IP family.
const maxRanges = 2

// config is what the controller reads of the configuration. The zero value means that there is
// nothing to run.
type config struct {
	clusters [maxRanges]clusterRange
	services [maxRanges]string
}

// clusterRange is a range of the cluster, empty if there is none, and the bits of the network
// part of the blocks that it is divided into.
type clusterRange struct {
	cidr string
	bits int
}

func configOf(c *controller.Config) config {
	var cfg config
	ipam := c.Controllers.NodeIPAM
	if !*ipam.AllocateNodeCIDRs {
		return cfg
	}
	for i, cidr := range c.Networking.ClusterCIDRs[:min(len(c.Networking.ClusterCIDRs), maxRanges)] {
		bits := *ipam.NodeCIDRMaskSizeIPv4
		if prefix, err := netip.ParsePrefix(cidr); err == nil && prefix.Addr().Is6() {
			bits = *ipam.NodeCIDRMaskSizeIPv6
		}
		cfg.clusters[i] = clusterRange{v1beta1.Network(cidr), int(bits)}
	}
	for i, cidr := range c.Networking.ServiceCIDRs[:min(len(c.Networking.ServiceCIDRs), maxRanges)] {
		cfg.services[i] = v1beta1.Network(cidr)
	}
	return cfg
}

type ipamController struct {
	controller.Env
	nodes  corelisters.NodeLister
	ranges *ranges
	loop   *reconcile.Loop[string]
	queue  reconcile.Queue[string] // the loop, except in tests
	runs   func(bool)
}

// newController returns nil if nodes get no ranges.
func newController(env controller.Env, cfg config) (*ipamController, error) {
	if cfg == (config{}) {
		return nil, nil
	}
	sets, err := setsOf(cfg)
	if err != nil {
		return nil, err
	}
	nodes := env.Informers.Core().V1().Nodes()
	c := &ipamController{Env: env, nodes: nodes.Lister()}
	c.loop = reconcile.New(env, reconcile.Options[string]{Queue: "cidrallocator_node", Workers: workers}, c.reconcile)
	c.queue = c.loop
	m := newMetrics(env.Metrics)
	c.ranges, c.runs = newRanges(sets, m, c.loop.Add), m.runs
	for _, cidr := range cfg.services {
		if cidr == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("reading a Service range: %w", err)
		}
		c.ranges.reserve(prefix.Masked())
	}
	c.watch(nodes.Informer())
	return c, nil
}

// setsOf are the blocks of the ranges of the cluster, in their order.
func setsOf(cfg config) ([]*blockSet, error) {
	var sets []*blockSet
	for _, r := range cfg.clusters {
		if r.cidr == "" {
			continue
		}
		cluster, err := netip.ParsePrefix(r.cidr)
		if err != nil {
			return nil, fmt.Errorf("reading a range of the cluster: %w", err)
		}
		set, err := newBlockSet(cluster, r.bits)
		if err != nil {
			return nil, fmt.Errorf("dividing %s among nodes: %w", cluster, err)
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// Run implements controller.Controller.
func (c *ipamController) Run(ctx context.Context) error {
	c.runs(true)
	defer c.runs(false)
	return reconcile.Run(ctx, c.Env, func(context.Context) error {
		c.takeOver()
		return nil
	}, c.loop.Run)
}
