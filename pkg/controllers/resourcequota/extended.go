package resourcequota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// deviceClasses knows which extended resources are backed by device classes.
type deviceClasses interface {
	// areBehind reports whether a class backs an extended resource.
	areBehind(resource corev1.ResourceName) bool
	// resourceOf returns the resource that a class backs, empty if it backs none but that which is named after it.
	resourceOf(class string) string
}

// limitsClassAsExtended reports whether a quota of that name limits ResourceClaims because it
// limits an extended resource which a device class backs.
func limitsClassAsExtended(name corev1.ResourceName, classes deviceClasses) bool {
	backed, ok := strings.CutPrefix(string(name), requests)
	if !ok {
		return false
	}
	class, ok := strings.CutPrefix(backed, resourcev1.ResourceDeviceClassPrefix)
	if ok && classes.resourceOf(class) != "" {
		return true
	}
	return isExtended(corev1.ResourceName(backed)) && classes.areBehind(corev1.ResourceName(backed))
}

// addExtended adds the devices of a claim under the names of the extended resources that their
// classes back, as far as the pod that the claim was made for does not account for them.
func addExtended(
	used corev1.ResourceList, devices map[string]resource.Quantity, classes deviceClasses, pod corev1.ResourceList,
) {
	for _, class := range slices.Sorted(maps.Keys(devices)) {
		names := []corev1.ResourceName{corev1.ResourceName(requests + resourcev1.ResourceDeviceClassPrefix + class)}
		if backed := classes.resourceOf(class); backed != "" {
			names = append(names, corev1.ResourceName(requests+backed))
		}
		for _, name := range names {
			rest := devices[class].DeepCopy()
			if accounted, ok := pod[name]; ok {
				rest.Sub(accounted)
			}
			if rest.Sign() > 0 {
				used[name] = rest
			}
		}
	}
}

// claimsByPod is the name of the index of ResourceClaims by the pod whose extended resources they
// were made for, <namespace>/<uid>.
const claimsByPod = "extendedResourceClaimPodUIDOwner"

// podOfClaim returns the reference to the pod whose extended resources a claim was made for, nil
// if it was made for something else.
func podOfClaim(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.APIVersion != "v1" || owner.Kind != "Pod" {
		return nil
	}
	return owner
}

func claimsByPodKeys(obj any) ([]string, error) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, nil
	}
	owner := podOfClaim(claim)
	if owner == nil {
		return nil, nil
	}
	return []string{podKey(claim.Namespace, owner.UID)}, nil
}

func podKey(namespace string, uid types.UID) string { return namespace + "/" + string(uid) }

// isClaimOfPod reports whether a claim is the one that stands for the extended resources of a
// pod, of all those that were made for it. Until the status of the pod names it, it is the oldest.
func isClaimOfPod(claim *resourcev1.ResourceClaim, pod *corev1.Pod, all []*resourcev1.ResourceClaim) bool {
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		return status.ResourceClaimName == claim.Name
	}
	return !slices.ContainsFunc(all, func(other *resourcev1.ResourceClaim) bool {
		if !other.CreationTimestamp.Equal(&claim.CreationTimestamp) {
			return other.CreationTimestamp.Before(&claim.CreationTimestamp)
		}
		return other.Name < claim.Name
	})
}
