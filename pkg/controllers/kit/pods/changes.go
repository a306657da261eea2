package pods

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/owners"
)

// Matters reports whether a change of a pod is relevant to its owner. Most changes of a pod,
// such as those of addresses and container states, are not.
func Matters(old, pod *corev1.Pod) bool {
	return old.UID != pod.UID ||
		old.Status.Phase != pod.Status.Phase ||
		(old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) ||
		!sameReadiness(ReadyCondition(old), ReadyCondition(pod)) ||
		!maps.Equal(old.Labels, pod.Labels) ||
		!owners.SameController(old, pod)
}

// IsRestored reports whether a pod is no longer being deleted: the cluster was restored from a backup.
func IsRestored(old, pod *corev1.Pod) bool {
	return old.UID == pod.UID && old.DeletionTimestamp != nil && pod.DeletionTimestamp == nil
}

// BecameReady reports whether a pod has changed from not ready to ready.
func BecameReady(old, pod *corev1.Pod) bool { return !IsReady(old) && IsReady(pod) }

func sameReadiness(a, b *corev1.PodCondition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}
