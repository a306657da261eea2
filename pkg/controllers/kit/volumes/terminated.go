package volumes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// UnknownPlugin is the plugin_name in metrics of a volume whose plugin is not known.
const UnknownPlugin = "N/A"

// IsTerminated reports whether a pod does not use its volumes any more: it has finished, or it is being
// deleted and none of its containers runs.
func IsTerminated(pod *corev1.Pod) bool {
	if pods.IsTerminal(pod) {
		return true
	}
	stopped := func(of []corev1.ContainerStatus) bool {
		return !slices.ContainsFunc(of, func(s corev1.ContainerStatus) bool {
			return s.State.Terminated == nil && s.State.Waiting == nil
		})
	}
	status := &pod.Status
	return pod.DeletionTimestamp != nil &&
		stopped(status.InitContainerStatuses) &&
		stopped(status.ContainerStatuses) &&
		stopped(status.EphemeralContainerStatuses)
}
