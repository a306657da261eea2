package ephemeralvolume

import (
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

func bindingFailed(pod *corev1.Pod, volume *corev1.Volume, err error) controller.Event {
	return controller.Warning(pod, "FailedBinding", "ephemeral volume %s: %v", volume.Name, err)
}
