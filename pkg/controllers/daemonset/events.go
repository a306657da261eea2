package daemonset

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

const (
	reasonSelectingAll  = "SelectingAll"
	messageSelectingAll = "This daemon set is selecting all pods. A non-empty selector is required."
)

// event is what is recorded on a DaemonSet.
type event struct{ kind, reason, message string }

func failedPodEvent(pod *corev1.Pod, node string) event {
	return event{corev1.EventTypeWarning, "FailedDaemonPod",
		fmt.Sprintf("Found failed daemon pod %s/%s on node %s, will try to kill it", pod.Namespace, pod.Name, node)}
}

func succeededPodEvent(pod *corev1.Pod, node string) event {
	return event{corev1.EventTypeNormal, "SucceededDaemonPod",
		fmt.Sprintf("Found succeeded daemon pod %s/%s on node %s, will try to delete it", pod.Namespace, pod.Name, node)}
}
