package devicetainteviction

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const reasonEviction = "DeviceTaintManagerEviction"

func evictionBegun(pod *corev1.Pod) controller.Event {
	return controller.Normal(referenceTo(reconcile.KeyOf(pod), pod.UID), reasonEviction, "Marking for deletion")
}

func evictionCancelled(pod types.NamespacedName, uid types.UID) controller.Event {
	return controller.Normal(referenceTo(pod, uid), reasonEviction, "Cancelling deletion")
}

func referenceTo(pod types.NamespacedName, uid types.UID) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: uid}
}
