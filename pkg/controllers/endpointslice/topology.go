package endpointslice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
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
	// sufficient is whether hints were possible at all with the nodes as examined last.
	sufficient bool
}

// refresh examines all nodes. Only one goroutine may call it at a time.
func (t *topology) refresh(ctx context.Context) error {
	nodes, err := t.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	t.cache.SetNodes(klog.FromContext(ctx), nodes)
	t.epoch.Add(1)
	t.sufficient = t.suffice()
	return nil
}

// suffice reports whether the library could compute how CPU is spread over zones. The library
// reports that only when it allocates endpoints, so it is given none to allocate.
func (t *topology) suffice() bool {
	_, _, events := t.cache.AddHints(klog.Logger{}, &topologycache.SliceInfo{})
	return !slices.ContainsFunc(events, func(e *topologycache.EventBuilder) bool {
		return strings.HasPrefix(e.Message, topologycache.InsufficientNodeInfo)
	})
}

// forgetService drops the hints of a Service that is gone. The library keeps them
// otherwise, and reports the Service as overloaded after every change of the nodes.
func (t *topology) forgetService(service types.NamespacedName) {
	t.cache.RemoveHints(service.String(), discoveryv1.AddressTypeIPv4)
	t.cache.RemoveHints(service.String(), discoveryv1.AddressTypeIPv6)
}

// reconcileTopology examines all nodes and queues the Services whose hints are to change.
func (c *endpointSliceController) reconcileTopology(ctx context.Context, _ string) error {
	services, err := c.examineNodes(ctx)
	for _, key := range services {
		c.serviceQueue.Add(key)
	}
	return err
}

// examineNodes examines all nodes and returns the Services whose hints would now overload
// a zone, and those that could have none before, which may name a Service twice.
func (c *endpointSliceController) examineNodes(ctx context.Context) ([]types.NamespacedName, error) {
	before := c.topology.sufficient
	if err := c.topology.refresh(ctx); err != nil {
		return nil, err
	}
	var services []types.NamespacedName
	for _, key := range c.topology.cache.GetOverloadedServices() {
		service, err := cache.ParseObjectName(key)
		if err != nil {
			return services, fmt.Errorf("reading the name of a Service with an overloaded zone: %w", err)
		}
		klog.FromContext(ctx).V(2).Info("queuing Service: a zone is overloaded", "service", key)
		services = append(services, types.NamespacedName(service))
	}
	if before || !c.topology.sufficient {
		return services, nil
	}
	klog.FromContext(ctx).V(2).Info("queuing the Services in topology mode: hints are possible again")
	all, err := c.services.List(labels.Everything())
	if err != nil {
		return services, fmt.Errorf("listing Services in topology mode: %w", err)
	}
	// Also those that seem to have hints: a reconcile under way may be about to remove them.
	for _, service := range all {
		if inTopologyMode(service) {
			services = append(services, reconcile.KeyOf(service))
		}
	}
	return services, nil
}

// inTopologyMode reports whether the annotations of the Service ask for hints.
func inTopologyMode(service *corev1.Service) bool {
	mode, found := service.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !found {
		mode = service.Annotations[corev1.AnnotationTopologyMode]
	}
	return mode == "Auto" || mode == "auto"
}

// spreadsDifferently reports whether a change of a node matters to hints: it compares what the library reads of a node.
// The zone and the role may be set after the node became ready.
func spreadsDifferently(old, node *corev1.Node) bool {
	return readyStatus(old) != readyStatus(node) || zoneOf(old) != zoneOf(node) ||
		isControlPlane(old) != isControlPlane(node) || !old.Status.Allocatable.Cpu().Equal(*node.Status.Allocatable.Cpu())
}

// isControlPlane reports whether a node is ignored when the CPU of the zones is counted.
func isControlPlane(node *corev1.Node) bool {
	return metav1.HasLabel(node.ObjectMeta, "node-role.kubernetes.io/control-plane") ||
		metav1.HasLabel(node.ObjectMeta, "node-role.kubernetes.io/master")
}

func zoneOf(node *corev1.Node) string { return node.Labels[corev1.LabelTopologyZone] }

func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	if _, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); ready != nil {
		return ready.Status
	}
	return ""
}
