package endpoints

import (
	corev1 "k8s.io/api/core/v1"
)

// Reasons of the events that are recorded on Endpoints.
const (
	reasonCreate = "FailedToCreateEndpoint"
	reasonUpdate = "FailedToUpdateEndpoint"
)

func (c *endpointsController) warnCreate(e *corev1.Endpoints, err error) {
	c.events.Eventf(e, corev1.EventTypeWarning, reasonCreate,
		"Failed to create endpoint for service %s/%s: %v", e.Namespace, e.Name, err)
}

func (c *endpointsController) warnUpdate(e *corev1.Endpoints, err error) {
	c.events.Eventf(e, corev1.EventTypeWarning, reasonUpdate,
		"Failed to update endpoint %s/%s: %v", e.Namespace, e.Name, err)
}
