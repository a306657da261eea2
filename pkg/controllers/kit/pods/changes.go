package pods

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/ownership"
)

// Matters reports that a change of a pod can change what its owner does or reports. The
// other changes, like addresses and container states, are most of what a pod goes
// through.
func Matters(old, pod *corev1.Pod) bool {
	return old.UID != pod.UID ||
		old.Status.Phase != pod.Status.Phase ||
		(old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) ||
		!sameReadiness(ReadyCondition(old), ReadyCondition(pod)) ||
		!maps.Equal(old.Labels, pod.Labels) ||
		!ownership.SameController(old, pod)
}

func sameReadiness(a, b *corev1.PodCondition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}
