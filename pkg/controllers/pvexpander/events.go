package pvexpander

import (
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	externalExpanding = "ExternalExpanding"
	resizeFailed      = "VolumeResizeFailed"
	resizeSuccessful  = "VolumeResizeSuccessful"
)

func waitsForResizer(claim *corev1.PersistentVolumeClaim) controller.Event {
	return controller.Normal(claim, externalExpanding, "waiting for an external controller to expand this PVC")
}

func waitsForDriver(claim *corev1.PersistentVolumeClaim, plugin string) controller.Event {
	return controller.Normal(claim, externalExpanding, "CSI migration enabled for %s; waiting for external resizer to expand the pvc", plugin)
}

func notPassedToDriver(claim *corev1.PersistentVolumeClaim, err error) controller.Event {
	return controller.Warning(claim, externalExpanding, "%v", err)
}

func failed(claim *corev1.PersistentVolumeClaim, err error) controller.Event {
	return controller.Warning(claim, resizeFailed, "%v", err)
}

func succeeded(claim *corev1.PersistentVolumeClaim) controller.Event {
	return controller.Normal(claim, resizeSuccessful, "ExpandVolume succeeded for volume %s", reconcile.KeyOf(claim))
}
