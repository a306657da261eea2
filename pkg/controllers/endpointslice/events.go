package endpointslice

import (
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

// The library records two further events, TopologyAwareHintsEnabled and
// TopologyAwareHintsDisabled.

func failedListPods(service *corev1.Service, err error) controller.Event {
	return failed(service, "FailedToListPods", "listing Pods", err)
}

func failedListSlices(service *corev1.Service, err error) controller.Event {
	return failed(service, "FailedToListEndpointSlices", "listing Endpoint Slices", err)
}

func failedUpdateSlices(service *corev1.Service, err error) controller.Event {
	return failed(service, "FailedToUpdateEndpointSlices", "updating Endpoint Slices", err)
}

func failed(service *corev1.Service, reason, doing string, err error) controller.Event {
	return controller.Warning(service, reason, "Error %s for Service %s/%s: %v",
		doing, service.Namespace, service.Name, err)
}
