package pvbinder

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// annPreResizeCapacity is on a volume that is being expanded. Its value is the capacity before.
const annPreResizeCapacity = "volume.alpha.kubernetes.io/pre-resize-capacity"

// boundClaim returns a claim that names a volume and is marked as bound, or nil if nothing has to
// change.
func boundClaim(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	names := claim.Spec.VolumeName == v.Name
	if names && isBindCompleted(claim) {
		return nil
	}
	claim = claim.DeepCopy()
	if !names {
		claim.Spec.VolumeName = v.Name
		if !isBoundByController(claim) {
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBoundByController, "yes")
		}
	}
	if !isBindCompleted(claim) {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	}
	return claim
}

// unboundStatus returns a claim with a phase other than Bound and nothing else in its status, nil if
// it is so already.
func unboundStatus(
	claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase,
) *corev1.PersistentVolumeClaim {
	status := &claim.Status
	if status.Phase == phase && status.AccessModes == nil && status.Capacity == nil &&
		status.CurrentVolumeAttributesClassName == nil {
		return nil
	}
	claim = claim.DeepCopy()
	status = &claim.Status
	status.Phase, status.AccessModes, status.Capacity, status.CurrentVolumeAttributesClassName = phase, nil, nil, nil
	return claim
}

// boundStatus returns a claim with the status of one that is bound to a volume, nil if it has that
// already. Once the claim is Bound, its capacity and class belong to those who resize and modify
// the volume.
func boundStatus(
	claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, vac bool,
) (*corev1.PersistentVolumeClaim, error) {
	begins := claim.Status.Phase != corev1.ClaimBound
	sameModes := slices.Equal(claim.Status.AccessModes, v.Spec.AccessModes)
	if !begins && sameModes {
		return nil, nil
	}
	from := claim.Status.Phase
	claim = claim.DeepCopy()
	claim.Status.Phase = corev1.ClaimBound
	if !sameModes {
		claim.Status.AccessModes = slices.Clone(v.Spec.AccessModes)
	}
	if !begins {
		return claim, nil
	}
	capacity, ok := v.Spec.Capacity[corev1.ResourceStorage]
	if !ok {
		return nil, fmt.Errorf("PersistentVolume %q is without a storage capacity", v.Name)
	}
	setCapacity(&claim.Status, v, capacity)
	if vac && from == corev1.ClaimPending {
		if class := ptr.Deref(v.Spec.VolumeAttributesClassName, ""); class != "" {
			claim.Status.CurrentVolumeAttributesClassName = &class
		}
	}
	return claim, nil
}

// setCapacity sets the capacity of a claim to that of its volume, or to what that was before an
// expansion that has not been completed.
func setCapacity(status *corev1.PersistentVolumeClaimStatus, v *corev1.PersistentVolume, capacity resource.Quantity) {
	if before, ok := v.Annotations[annPreResizeCapacity]; ok {
		if parsed, err := resource.ParseQuantity(before); err == nil {
			capacity = parsed
		}
		if status.Capacity == nil {
			status.Capacity = corev1.ResourceList{}
		}
		status.Capacity[corev1.ResourceStorage] = capacity
		return
	}
	if shown, ok := status.Capacity[corev1.ResourceStorage]; !ok || shown.Cmp(capacity) != 0 {
		status.Capacity = maps.Clone(v.Spec.Capacity)
	}
}
