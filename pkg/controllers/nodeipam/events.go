package nodeipam

import (
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

func notAvailable(node *corev1.Node) controller.Event {
	return controller.Normal(node, "CIDRNotAvailable", "Node %s status is now: CIDRNotAvailable", node.Name)
}

func assignmentFailed(node *corev1.Node) controller.Event {
	return controller.Normal(node, "CIDRAssignmentFailed", "Node %s status is now: CIDRAssignmentFailed", node.Name)
}
