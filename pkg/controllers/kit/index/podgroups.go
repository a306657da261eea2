package index

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// PodsByGroup is the name of the index of pods by their PodGroup, <namespace>/<name>.
const PodsByGroup = "podGroup"

// EnsurePodsByGroup adds PodsByGroup to the informer of pods unless it has it.
func EnsurePodsByGroup(pods cache.SharedIndexInformer) { Ensure(pods, PodsByGroup, groupKeys) }

// GroupOf returns the name of the PodGroup of a pod, empty if it has none.
func GroupOf(pod *corev1.Pod) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *pod.Spec.SchedulingGroup.PodGroupName
}

func groupKeys(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || GroupOf(pod) == "" {
		return nil, nil
	}
	return []string{types.NamespacedName{Namespace: pod.Namespace, Name: GroupOf(pod)}.String()}, nil
}
