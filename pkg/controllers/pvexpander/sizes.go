package pvexpander

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A size that is missing is 0.

func requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

func capacityOf(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Status.Capacity[corev1.ResourceStorage]
}

func sizeOf(volume *corev1.PersistentVolume) resource.Quantity {
	return volume.Spec.Capacity[corev1.ResourceStorage]
}

// mustGrow reports whether a claim requests more than it has.
func mustGrow(claim *corev1.PersistentVolumeClaim) bool {
	return grew(capacityOf(claim), requested(claim))
}

func grew(from, to resource.Quantity) bool { return to.Cmp(from) > 0 }
