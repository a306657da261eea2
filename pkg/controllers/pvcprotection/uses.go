package pvcprotection

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

// uses reports whether a pod uses a claim. If the claim is being deleted, the result says whether
// the pod holds the claim. Otherwise it says whether the pod counts for the condition Unused.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	for i := range pod.Spec.Volumes {
		if usesFor(pod, &pod.Spec.Volumes[i], claim) {
			return true
		}
	}
	return false
}

// usesFor reports whether a pod uses a claim for one of its volumes.
func usesFor(pod *corev1.Pod, volume *corev1.Volume, claim *corev1.PersistentVolumeClaim) bool {
	if index.ClaimOf(pod, volume) != claim.Name || pod.Namespace != claim.Namespace {
		return false
	}
	isOwn := volume.PersistentVolumeClaim == nil // made for a generic ephemeral volume
	if isOwn && !metav1.IsControlledBy(claim, pod) {
		return false
	}
	if claim.DeletionTimestamp == nil {
		return !volumes.IsTerminated(pod)
	}
	return pod.Spec.NodeName != "" && !(isOwn && isShutDown(pod))
}

// mayRelease reports whether a pod may hold fewer than all of its claims. A finished pod is included
// because its deletion follows.
func mayRelease(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" || volumes.IsTerminated(pod) || isShutDown(pod)
}

// isShutDown reports whether the kubelet has shut down a pod or does not need to. Then only finalizers
// keep the pod from being removed, and one of them may wait until the claims of the pod are gone.
func isShutDown(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}
