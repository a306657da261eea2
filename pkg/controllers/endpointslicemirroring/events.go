package endpointslicemirroring

import (
	corev1 "k8s.io/api/core/v1"
)

// Reasons of the events that are recorded on Endpoints.
const (
	reasonInvalid = "InvalidIPAddress"
	reasonTooMany = "TooManyAddressesToMirror"
)

// warnSkipped records what is not mirrored. It is recorded with every reconcile: the recorder
// adds up equal events.
func (c *mirroringController) warnSkipped(e *corev1.Endpoints, skipped skippedAddresses) {
	if skipped.invalid > 0 {
		c.events.Eventf(e, corev1.EventTypeWarning, reasonInvalid,
			"Skipped %d invalid IP addresses when mirroring to EndpointSlices", skipped.invalid)
	}
	if skipped.total > skipped.invalid {
		c.events.Eventf(e, corev1.EventTypeWarning, reasonTooMany,
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped",
			c.config.maxEndpoints, skipped.total)
	}
}
