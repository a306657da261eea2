package tainteviction

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
)

const reasonEviction = "TaintManagerEviction"

func evictionBegun(pod types.NamespacedName) controller.Event {
	return controller.Normal(referenceTo(pod), reasonEviction, "Marking for deletion Pod %s", pod)
}

func evictionCancelled(pod types.NamespacedName) controller.Event {
	return controller.Normal(referenceTo(pod), reasonEviction, "Cancelling deletion of Pod %s", pod)
}

// referenceTo refers to a pod by name only, as tools that watch these events expect.
func referenceTo(pod types.NamespacedName) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
}
