package pvbinder

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
)

// claimAction is what is done for a claim.
type claimAction string

const (
	// bindClaim binds the claim to the volume.
	bindClaim claimAction = "bind"
	// findVolume looks for a volume.
	findVolume claimAction = "find"
	// leavePending sets the phase Pending.
	leavePending claimAction = "pending"
	// declareLost sets the phase Lost.
	declareLost claimAction = "lost"
	// refuseClaim fails, and changes nothing.
	refuseClaim claimAction = "refuse"
	// setClass gives the claim the default class.
	setClass claimAction = "class"
	// provision starts to provision a volume.
	provision claimAction = "provision"
)

// claimPlan is the decision about a claim.
type claimPlan struct {
	action claimAction
	// event is recorded: with the action declareLost only if the phase changes, else always.
	event *controller.Event
	// err is the error of refuseClaim.
	err error
	// class is the class of setClass.
	class string
	// missing is set if the decision rests on a volume that the store does not contain.
	missing bool
	// misbound is set if the decision rests on the claimRef of the volume in the store.
	misbound bool
}

// judgeClaim decides what is done for a claim. named is the volume that the claim names, nil if the
// store does not contain it.
func judgeClaim(claim *corev1.PersistentVolumeClaim, named *corev1.PersistentVolume, vac bool) claimPlan {
	if isBindCompleted(claim) {
		return judgeBoundClaim(claim, named)
	}
	switch {
	case claim.Spec.VolumeName == "":
		return claimPlan{action: findVolume}
	case named == nil:
		return claimPlan{action: leavePending, missing: true}
	case named.Spec.ClaimRef == nil:
		if reason := mismatch(claim, named, vac); reason != "" {
			return claimPlan{action: leavePending, event: cannotBindRequested(claim, named, reason)}
		}
		return claimPlan{action: bindClaim}
	case volume.IsVolumeBoundToClaim(named, claim):
		return claimPlan{action: bindClaim}
	case isBoundByController(claim):
		err := fmt.Errorf("invalid binding of claim %q to volume %q: volume already claimed by %q",
			keyOf(claim), named.Name, claimKeyOf(named))
		return claimPlan{action: refuseClaim, event: boundToAnother(claim, named), err: err}
	default:
		return claimPlan{action: leavePending, event: boundToAnother(claim, named)}
	}
}

// judgeBoundClaim decides what is done for a claim that has once been bound. Only the UID in the
// claimRef counts.
func judgeBoundClaim(claim *corev1.PersistentVolumeClaim, named *corev1.PersistentVolume) claimPlan {
	switch {
	case claim.Spec.VolumeName == "":
		return claimPlan{action: declareLost, event: lostReference(claim)}
	case named == nil:
		return claimPlan{action: declareLost, event: lostVolume(claim), missing: true}
	case isMisbound(claim, named):
		return claimPlan{action: declareLost, event: misbound(claim), misbound: true}
	default:
		return claimPlan{action: bindClaim}
	}
}

// isMisbound reports whether the volume that a bound claim names is of another claim.
func isMisbound(claim *corev1.PersistentVolumeClaim, named *corev1.PersistentVolume) bool {
	return named.Spec.ClaimRef != nil && named.Spec.ClaimRef.UID != claim.UID
}

// mismatch returns why a claim cannot be bound to the volume that it names, empty if it can.
// Neither the selector of the claim nor the phase of the volume matters.
func mismatch(claim *corev1.PersistentVolumeClaim, named *corev1.PersistentVolume, vac bool) string {
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	capacity := named.Spec.Capacity[corev1.ResourceStorage]
	wanted := ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
	offered := ptr.Deref(named.Spec.VolumeAttributesClassName, "")
	switch {
	case named.DeletionTimestamp != nil:
		return fmt.Sprintf("the volume is marked for deletion %q", named.Name)
	case capacity.Value() < requested.Value():
		return "requested PV is too small"
	case volume.GetPersistentVolumeClass(named) != volume.GetPersistentVolumeClaimClass(claim):
		return "storageClassName does not match"
	case vac && wanted != offered:
		return "volumeAttributesClassName does not match"
	case !vac && (wanted != "" || offered != ""):
		return "volumeAttributesClassName is not supported when the feature-gate VolumeAttributesClass is disabled"
	case volume.CheckVolumeModeMismatches(&claim.Spec, &named.Spec):
		return "incompatible volumeMode"
	case !volume.CheckAccessModes(claim, named):
		return "incompatible accessMode"
	}
	return ""
}

// unmatched is what the decision about a claim for which no volume was found depends on.
type unmatched struct {
	// defaultClass is the default class of the cluster, empty if there is none.
	defaultClass string
	// delayed is set if the claim is bound or provisioned for its first consumer.
	delayed bool
	// waiting are the names of the pods of the claim that are not scheduled.
	waiting []string
}

// judgeUnmatched decides what is done for a claim for which no volume was found.
func judgeUnmatched(claim *corev1.PersistentVolumeClaim, facts unmatched) claimPlan {
	switch {
	case facts.defaultClass != "" && lacksClass(claim):
		return claimPlan{action: setClass, class: facts.defaultClass}
	case facts.delayed && !volume.IsDelayBindingProvisioning(claim):
		if len(facts.waiting) > 0 {
			return claimPlan{action: leavePending, event: waitsForPods(claim, facts.waiting)}
		}
		return claimPlan{action: leavePending, event: waitsForConsumer(claim)}
	case volume.GetPersistentVolumeClaimClass(claim) != "":
		return claimPlan{action: provision}
	default:
		return claimPlan{action: leavePending, event: noVolume(claim)}
	}
}

// lacksClass reports whether a claim may be given a class. The class "" counts as one.
func lacksClass(claim *corev1.PersistentVolumeClaim) bool {
	return !volume.PersistentVolumeClaimHasClass(claim)
}

func isBindCompleted(claim *corev1.PersistentVolumeClaim) bool {
	return metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

func isBoundByController(object metav1.Object) bool {
	_, ok := object.GetAnnotations()[volume.AnnBoundByController]
	return ok
}
