package pods

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// DisruptionPatch returns a strategic merge patch that sets a condition in the status of a pod, or
// nil if the pod already has the condition. If the status of the condition stays the same, so does
// its transition time. The patch contains the UID, so that the API server rejects it for another
// pod with the same name. Conditions are merged by type.
func DisruptionPatch(pod *corev1.Pod, condition corev1.PodCondition) ([]byte, error) {
	for i := range pod.Status.Conditions {
		old := &pod.Status.Conditions[i]
		if old.Type != condition.Type || old.Status != condition.Status {
			continue
		}
		condition.LastTransitionTime = old.LastTransitionTime
		if old.Reason == condition.Reason && old.Message == condition.Message && old.LastProbeTime.IsZero() {
			return nil, nil
		}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
}
