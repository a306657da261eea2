package endpoints

import (
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

func failedCreate(e *corev1.Endpoints, err error) controller.Event {
	return controller.Warning(e, "FailedToCreateEndpoint",
		"Failed to create endpoint for service %s/%s: %v", e.Namespace, e.Name, err)
}

func failedUpdate(e *corev1.Endpoints, err error) controller.Event {
	return controller.Warning(e, "FailedToUpdateEndpoint",
		"Failed to update endpoint %s/%s: %v", e.Namespace, e.Name, err)
}
