package nodelifecycle

import (
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

func registered(node identity) controller.Event {
	return controller.Normal(node.reference(), "RegisteredNode",
		"Node %s event: Registered Node %s in Controller", node.name, node.name)
}

func removing(node identity) controller.Event {
	return controller.Normal(node.reference(), "RemovingNode",
		"Node %s event: Removing Node %s from Controller", node.name, node.name)
}

func nodeNotReady(node identity) controller.Event {
	return controller.Normal(node.reference(), "NodeNotReady", "Node %s status is now: NodeNotReady", node.name)
}

func podNotReady(pod *corev1.Pod) controller.Event {
	return controller.Warning(pod, "NodeNotReady", "Node is not ready")
}

func (n identity) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.name, UID: n.uid}
}
