package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
)

// Reasons of the events that this package records on a Service. The library records
// TopologyAwareHintsEnabled and TopologyAwareHintsDisabled.
const (
	reasonListPods     = "FailedToListPods"
	reasonListSlices   = "FailedToListEndpointSlices"
	reasonUpdateSlices = "FailedToUpdateEndpointSlices"
)

// warn records that doing something for a Service failed.
func (c *endpointSliceController) warn(service *corev1.Service, reason, doing string, err error) {
	c.events.Eventf(service, corev1.EventTypeWarning, reason,
		"Error %s for Service %s/%s: %v", doing, service.Namespace, service.Name, err)
}
