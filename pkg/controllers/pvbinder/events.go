package pvbinder

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
)

func noVolume(claim *corev1.PersistentVolumeClaim) *controller.Event {
	return event(controller.Normal(claim, "FailedBinding",
		"no persistent volumes available for this claim and no storage class is set"))
}

func boundToAnother(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) *controller.Event {
	return event(controller.Warning(claim, "FailedBinding", "volume %q already bound to a different claim.", v.Name))
}

func cannotBindRequested(
	claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, reason string,
) *controller.Event {
	return event(controller.Warning(claim, "VolumeMismatch", "Cannot bind to requested volume %q: %s", v.Name, reason))
}

func volumeMismatch(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) *controller.Event {
	return event(controller.Warning(v, "VolumeMismatch",
		"Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name))
}

func claimMismatch(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) *controller.Event {
	return event(controller.Warning(claim, "VolumeMismatch",
		"Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", v.Name))
}

func waitsForConsumer(claim *corev1.PersistentVolumeClaim) *controller.Event {
	return event(controller.Normal(claim, "WaitForFirstConsumer",
		"waiting for first consumer to be created before binding"))
}

func waitsForPods(claim *corev1.PersistentVolumeClaim, pods []string) *controller.Event {
	noun := "pod"
	if len(pods) > 1 {
		noun = "pods"
	}
	return event(controller.Normal(claim, "WaitForPodScheduled",
		"waiting for %s %s to be scheduled", noun, strings.Join(pods, ",")))
}

func waitsForProvisioner(claim *corev1.PersistentVolumeClaim, provisioner string) *controller.Event {
	return event(controller.Normal(claim, "ExternalProvisioning",
		"Waiting for a volume to be created either by the external provisioner '%s' "+
			"or manually by the system administrator. If volume creation is delayed, "+
			"please verify that the provisioner is running and correctly registered.", provisioner))
}

func provisioningFailed(claim *corev1.PersistentVolumeClaim, message string) *controller.Event {
	return event(controller.Warning(claim, "ProvisioningFailed", "%s", message))
}

func cleanupFailed(claim *corev1.PersistentVolumeClaim, err error) *controller.Event {
	return event(controller.Warning(claim, "ProvisioningCleanupFailed",
		"Error cleaning provisioned volume for claim %s: %v. Please delete manually.", keyOf(claim), err))
}

func provisioned(claim *corev1.PersistentVolumeClaim, volume, plugin string) *controller.Event {
	return event(controller.Normal(claim, "ProvisioningSucceeded",
		"Successfully provisioned volume %s using %s", volume, plugin))
}

func lostReference(claim *corev1.PersistentVolumeClaim) *controller.Event {
	return event(controller.Warning(claim, "ClaimLost",
		"Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"))
}

func lostVolume(claim *corev1.PersistentVolumeClaim) *controller.Event {
	return event(controller.Warning(claim, "ClaimLost",
		"Bound claim has lost its PersistentVolume. Data on the volume is lost!"))
}

func misbound(claim *corev1.PersistentVolumeClaim) *controller.Event {
	return event(controller.Warning(claim, "ClaimMisbound",
		"Two claims are bound to the same volume, this one is bound incorrectly"))
}

func unknownPolicy(v *corev1.PersistentVolume) *controller.Event {
	return event(controller.Warning(v, "VolumeUnknownReclaimPolicy",
		"Volume has unrecognized PersistentVolumeReclaimPolicy"))
}

func deletionFailed(v *corev1.PersistentVolume, message string) *controller.Event {
	return event(controller.Warning(v, "VolumeFailedDelete", "%s", message))
}

func deletionDelayed(v *corev1.PersistentVolume, message string) *controller.Event {
	return event(controller.Normal(v, "VolumeDelete", "%s", message))
}

func recyclingFailed(v *corev1.PersistentVolume, message string) *controller.Event {
	return event(controller.Warning(v, "VolumeFailedRecycle", "%s", message))
}

func usedByPods(v *corev1.PersistentVolume, pods string) *controller.Event {
	return event(controller.Normal(v, "VolumeFailedRecycle", "Volume is used by pods: %s", pods))
}

func recycled(v *corev1.PersistentVolume) *controller.Event {
	return event(controller.Normal(v, "VolumeRecycled", "Volume recycled"))
}

// recyclerEvent passes an event of a recycler pod on to its volume.
func recyclerEvent(v *corev1.PersistentVolume, of *corev1.Event) *controller.Event {
	return &controller.Event{About: v, Type: of.Type, Reason: "RecyclerPod", Message: "Recycler pod: " + of.Message}
}

func event(e controller.Event) *controller.Event { return &e }
