package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeIPAMController configures node-ipam-controller. The ranges are
// networking.clusterCIDRs and networking.serviceCIDRs.
type NodeIPAMController struct {
	ControllerSettings `json:",inline"`
	// Whether nodes get ranges of pod addresses. Default: false, which leaves the
	// controller idle. Needs networking.clusterCIDRs. A change starts or stops the
	// controller.
	AllocateNodeCIDRs *bool `json:"allocateNodeCIDRs,omitempty"`
	// Bits of the network part of a node's IPv4 range. Default: 24. Range: 1 to 32,
	// not less than that of the IPv4 range in networking.clusterCIDRs. A change
	// restarts the controller.
	NodeCIDRMaskSizeIPv4 *int32 `json:"nodeCIDRMaskSizeIPv4,omitempty"`
	// Bits of the network part of a node's IPv6 range. Default: 64. Range: 1 to
	// 128, not less than that of the IPv6 range in networking.clusterCIDRs, and at
	// most 16 more. A change restarts the controller.
	NodeCIDRMaskSizeIPv6 *int32 `json:"nodeCIDRMaskSizeIPv6,omitempty"`
	ResyncSettings       `json:",inline"`
}

// NodeLifecycleController configures node-lifecycle-controller.
type NodeLifecycleController struct {
	ControllerSettings `json:",inline"`
	// Period between two checks of the health of all nodes. Default: 5s. Range: 1s to 8760h.
	// A change restarts the controller.
	NodeMonitorPeriod *metav1.Duration `json:"nodeMonitorPeriod,omitempty"`
	// How long a node may not report before it counts as not ready. Default: 50s; should be
	// several times the reporting period of kubelets, and more than nodeMonitorPeriod. Range:
	// 1s to 8760h. A change restarts the controller.
	NodeMonitorGracePeriod *metav1.Duration `json:"nodeMonitorGracePeriod,omitempty"`
	// How long a new node may take until its first report. Default: 1m. Range: 1s to 8760h.
	// A change restarts the controller.
	NodeStartupGracePeriod *metav1.Duration `json:"nodeStartupGracePeriod,omitempty"`
	// Nodes per second of one zone that are tainted so that their pods are evicted.
	// Default: 0.1. Range: 0 (none) to 1000. A change restarts the controller.
	NodeEvictionRate *float32 `json:"nodeEvictionRate,omitempty"`
	// Nodes per second of a zone that are tainted while it counts as disrupted
	// (unhealthyZoneThreshold), if it is large; in a small one none are. Default: 0.01.
	// Range: 0 (none) to 1000, usually less than nodeEvictionRate. A change restarts the
	// controller.
	SecondaryNodeEvictionRate *float32 `json:"secondaryNodeEvictionRate,omitempty"`
	// Number of nodes above which a zone is large. Default: 50. Range: 0 to
	// 1000000. A change restarts the controller.
	LargeClusterSizeThreshold *int32 `json:"largeClusterSizeThreshold,omitempty"`
	// Fraction of nodes that are not ready, at least three, from which a zone counts as
	// disrupted. Default: 0.55. Range: 0 to 1. A change restarts the controller.
	UnhealthyZoneThreshold *float32 `json:"unhealthyZoneThreshold,omitempty"`
	ResyncSettings         `json:",inline"`
}

// CloudNodeController configures cloud-node-controller.
type CloudNodeController struct {
	ControllerSettings `json:",inline"`
	// Nodes initialized at the same time. Default: 1. Range: 1 to 1000. A change
	// restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
	// Nodes whose addresses are checked at the same time. Default: 0, which means
	// concurrentSyncs. Range: 0 to 1000. A change restarts the controller.
	ConcurrentStatusUpdates *int32 `json:"concurrentStatusUpdates,omitempty"`
	// Period between two checks of the addresses of all nodes. Default: 5m. Range: 1s to
	// 24h. A change restarts the controller.
	NodeStatusUpdateFrequency *metav1.Duration `json:"nodeStatusUpdateFrequency,omitempty"`
	ResyncSettings            `json:",inline"`
}

// CloudNodeLifecycleController configures cloud-node-lifecycle-controller.
type CloudNodeLifecycleController struct {
	ControllerSettings `json:",inline"`
	// Pause between two checks of all nodes. Default: 5s. Range: 1s to 10m. A change
	// restarts the controller.
	NodeMonitorPeriod *metav1.Duration `json:"nodeMonitorPeriod,omitempty"`
}

// ServiceLBController configures service-lb-controller.
type ServiceLBController struct {
	ControllerSettings `json:",inline"`
	// Services reconciled at the same time. Default: 1. Range: 1 to 1000. A change
	// restarts the controller.
	ConcurrentSyncs *int32 `json:"concurrentSyncs,omitempty"`
}

// NodeRouteController configures node-route-controller. The ranges are
// networking.clusterCIDRs.
type NodeRouteController struct {
	ControllerSettings `json:",inline"`
	// Period between two checks of all routes. Default: 10s. Range: 1s to 24h. A change
	// restarts the controller.
	ReconciliationPeriod *metav1.Duration `json:"reconciliationPeriod,omitempty"`
}
