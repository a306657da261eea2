package garbagecollector

import (
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

// ownerInOtherNamespace reports that an object refers to an owner in another namespace.
func ownerInOtherNamespace(ref invalidReference) controller.Event {
	dependent := ref.dependent
	return controller.Warning(&corev1.ObjectReference{
		APIVersion: dependent.apiVersion,
		Kind:       dependent.kind,
		Namespace:  dependent.namespace,
		Name:       dependent.name,
		UID:        dependent.uid,
	}, "OwnerRefInvalidNamespace", "ownerRef %s does not exist in namespace %q", ref.owner, dependent.namespace)
}
