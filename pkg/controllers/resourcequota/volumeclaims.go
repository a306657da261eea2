package resourcequota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
)

const (
	// ofStorageClass comes between a storage class and what a quota limits of its claims.
	ofStorageClass = ".storageclass.storage.k8s.io/"

	claimsOfClass  = ofStorageClass + string(corev1.ResourcePersistentVolumeClaims)
	storageOfClass = ofStorageClass + string(corev1.ResourceRequestsStorage)
)

// limitsVolumeClaim reports whether a quota of that name limits PersistentVolumeClaims.
func limitsVolumeClaim(name corev1.ResourceName) bool {
	switch name {
	case "count/persistentvolumeclaims", corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage:
		return true
	}
	return strings.HasSuffix(string(name), claimsOfClass) || strings.HasSuffix(string(name), storageOfClass)
}

// volumeClaimUsage returns what a PersistentVolumeClaim uses.
func volumeClaimUsage(claim *corev1.PersistentVolumeClaim, f features) corev1.ResourceList {
	used := corev1.ResourceList{
		"count/persistentvolumeclaims":        one,
		corev1.ResourcePersistentVolumeClaims: one,
	}
	class := volume.GetPersistentVolumeClaimClass(claim)
	if class != "" {
		used[corev1.ResourceName(class+claimsOfClass)] = one
	}
	storage, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return used
	}
	// In whole bytes: a fraction of one is not accepted in the status of a quota, see
	// kubernetes/kubernetes#94313.
	storage = storage.DeepCopy()
	storage.RoundUp(0)
	if allocated, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && f.expansionRecovery {
		allocated = allocated.DeepCopy()
		allocated.RoundUp(0)
		if allocated.Cmp(storage) > 0 {
			storage = allocated // an expansion that failed is still being recovered from
		}
	}
	used[corev1.ResourceRequestsStorage] = storage
	if class != "" {
		used[corev1.ResourceName(class+storageOfClass)] = storage
	}
	return used
}

// volumeClaimProfile is what the scopes of quotas know of a PersistentVolumeClaim.
type volumeClaimProfile struct {
	// scoped is whether there are volume attributes classes.
	scoped bool
	// attributes are the volume attributes classes that the claim has, is to have, or is about
	// to get, sorted and separated by spaces.
	attributes string
}

func profileOfVolumeClaim(claim *corev1.PersistentVolumeClaim, f features) volumeClaimProfile {
	if !f.volumeAttributes {
		return volumeClaimProfile{}
	}
	var classes []string
	for _, class := range []*string{claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName} {
		if class != nil && *class != "" {
			classes = append(classes, *class)
		}
	}
	if change := claim.Status.ModifyVolumeStatus; change != nil && change.TargetVolumeAttributesClassName != "" {
		classes = append(classes, change.TargetVolumeAttributesClassName)
	}
	slices.Sort(classes)
	return volumeClaimProfile{scoped: true, attributes: strings.Join(slices.Compact(classes), " ")}
}

// meets reports whether a claim is in a scope.
func (p volumeClaimProfile) meets(r requirement) bool {
	return p.scoped && r.scope == corev1.ResourceQuotaScopeVolumeAttributesClass &&
		r.metBy(strings.Fields(p.attributes)...)
}

// releasesVolumeClaim reports whether after an update of a PersistentVolumeClaim a quota may have
// room again. Admission never lowers usage, so any change of it counts.
func releasesVolumeClaim(old, new *corev1.PersistentVolumeClaim, f features) bool {
	return profileOfVolumeClaim(old, f) != profileOfVolumeClaim(new, f) ||
		!same(volumeClaimUsage(old, f), volumeClaimUsage(new, f))
}
