package endpointslice

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/klog/v2"
)

// topologyKey is the only key of the topology loop.
const topologyKey = "nodes"

// topology is how CPU is spread over the zones of the cluster and, for Services in
// topology mode, how their endpoints are.
type topology struct {
	cache *topologycache.TopologyCache
	nodes corelisters.NodeLister
	// epoch counts how often the nodes were examined.
	epoch atomic.Uint64
}

// refresh looks at all nodes.
func (t *topology) refresh(ctx context.Context) error {
	nodes, err := t.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	t.cache.SetNodes(klog.FromContext(ctx), nodes)
	t.epoch.Add(1)
	return nil
}

// forgetService drops the hints of a Service that is gone. The library keeps them
// otherwise, and reports the Service as overloaded after every change of the nodes.
func (t *topology) forgetService(service types.NamespacedName) {
	t.cache.RemoveHints(service.String(), discoveryv1.AddressTypeIPv4)
	t.cache.RemoveHints(service.String(), discoveryv1.AddressTypeIPv6)
}

// reconcileTopology looks at all nodes and queues the Services whose hints would now
// overload a zone.
func (c *endpointSliceController) reconcileTopology(ctx context.Context, _ string) error {
	if err := c.topology.refresh(ctx); err != nil {
		return err
	}
	for _, key := range c.topology.cache.GetOverloadedServices() {
		service, err := cache.ParseObjectName(key)
		if err != nil {
			return fmt.Errorf("reading the name of a Service with an overloaded zone: %w", err)
		}
		klog.FromContext(ctx).V(2).Info("queuing Service: a zone is overloaded", "service", key)
		c.serviceLoop.Add(types.NamespacedName(service))
	}
	return nil
}

// spreadsDifferently reports whether a change of a node matters to hints. The zone is
// compared because cloud providers may set it after the node became ready.
func spreadsDifferently(old, node *corev1.Node) bool {
	return readyStatus(old) != readyStatus(node) ||
		old.Labels[corev1.LabelTopologyZone] != node.Labels[corev1.LabelTopologyZone]
}

func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status
		}
	}
	return ""
}
