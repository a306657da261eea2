package pvbinder

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// volumeAction is what is done for a volume.
type volumeAction string

const (
	// setAvailable sets the phase Available.
	setAvailable volumeAction = "available"
	// setBound sets the phase Bound.
	setBound volumeAction = "bound"
	// release sets the phase Released, unless it is Released or Failed, and reclaims the volume.
	release volumeAction = "release"
	// unbind removes the claimRef, or its UID, and sets the phase Available.
	unbind volumeAction = "unbind"
	// wakeClaim enqueues the claim.
	wakeClaim volumeAction = "wake"
	// reportMismatch records that the claim has another volume mode.
	reportMismatch volumeAction = "mismatch"
)

// judgeVolume decides what is done for a volume. claim is the claim that its claimRef refers to,
// with its UID, nil if that claim does not exist.
func judgeVolume(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) volumeAction {
	switch {
	case v.Spec.ClaimRef == nil, v.Spec.ClaimRef.UID == "":
		return setAvailable
	case claim == nil:
		return release
	case claim.Spec.VolumeName == "":
		if volume.CheckVolumeModeMismatches(&claim.Spec, &v.Spec) {
			return reportMismatch
		}
		return wakeClaim
	case claim.Spec.VolumeName == v.Name:
		return setBound
	case isProvisioned(v) && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return release
	default:
		return unbind
	}
}

// isOver reports whether a volume has been released.
func isOver(v *corev1.PersistentVolume) bool {
	return v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
}

func isProvisioned(v *corev1.PersistentVolume) bool {
	return metav1.HasAnnotation(v.ObjectMeta, volume.AnnDynamicallyProvisioned)
}

// unbound returns a volume without the claim that it was bound to. A volume that a user reserved
// stays reserved for the name of the claim.
func unbound(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v = v.DeepCopy()
	if !isBoundByController(v) {
		v.Spec.ClaimRef.UID = ""
		return v
	}
	v.Spec.ClaimRef = nil
	delete(v.Annotations, volume.AnnBoundByController)
	if len(v.Annotations) == 0 {
		v.Annotations = nil
	}
	return v
}

// isReleased reports whether a volume may be reclaimed: the claim that it was bound to does not exist
// or is bound to another volume. claim is the one that has its name now, nil if there is none.
func isReleased(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	switch {
	case ref == nil, ref.UID == "":
		return false
	case claim == nil, claim.UID != ref.UID:
		return true
	default:
		return claim.Spec.VolumeName != "" && claim.Spec.VolumeName != v.Name
	}
}
