package endpointslicemirroring

import (
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

func invalidAddresses(e *corev1.Endpoints, skipped int) controller.Event {
	return controller.Warning(e, "InvalidIPAddress",
		"Skipped %d invalid IP addresses when mirroring to EndpointSlices", skipped)
}

func tooManyAddresses(e *corev1.Endpoints, most, skipped int) controller.Event {
	return controller.Warning(e, "TooManyAddressesToMirror",
		"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped",
		most, skipped)
}
