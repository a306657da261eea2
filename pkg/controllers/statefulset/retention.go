package statefulset

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// policy is whether claims are retained when the set is deleted, and when a slot is scaled
// down.
type policy struct{ deleteWithSet, deleteWithPod bool }

// retainsAll is the policy under which claims are not given owners.
var retainsAll = policy{}

// policyOf returns the retention policy of a set. Unknown values mean Retain.
func policyOf(set *appsv1.StatefulSet) policy {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil {
		return retainsAll
	}
	return policy{
		deleteWithSet: p.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		deleteWithPod: p.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
}

// knownPolicy reports whether the retention policy of a set has known values only.
func knownPolicy(set *appsv1.StatefulSet) bool {
	known := func(v appsv1.PersistentVolumeClaimRetentionPolicyType) bool {
		return v == "" ||
			v == appsv1.DeletePersistentVolumeClaimRetentionPolicyType ||
			v == appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	return p == nil || known(p.WhenDeleted) && known(p.WhenScaled)
}

// ownedBy is which of the set and the pod of a slot own a claim.
type ownedBy struct{ set, pod bool }

// wantedOwners returns the owners that a policy requires. A condemned pod owns its claims, so
// that they are deleted with it; the set owns those of the slots that stay.
func wantedOwners(p policy, inRange bool) ownedBy {
	return ownedBy{
		set: p.deleteWithSet && (inRange || !p.deleteWithPod),
		pod: p.deleteWithPod && !inRange,
	}
}

// candidate is the set or a pod as the owner of a claim. The UID of a pod that is not
// created yet is empty; such a pod owns nothing.
type candidate struct {
	kind schema.GroupVersionKind
	name string
	uid  types.UID
}

func setCandidate(set *appsv1.StatefulSet) candidate { return candidate{setKind, set.Name, set.UID} }
func podCandidate(pod *corev1.Pod) candidate         { return candidate{podKind, pod.Name, pod.UID} }

// isNamed reports whether a reference refers to the candidate or a namesake.
func (c candidate) isNamed(ref *metav1.OwnerReference) bool {
	return ref.APIVersion == c.kind.GroupVersion().String() && ref.Kind == c.kind.Kind && ref.Name == c.name
}

// isOwner reports whether a reference refers to the candidate itself.
func (c candidate) isOwner(ref *metav1.OwnerReference) bool { return c.uid != "" && ref.UID == c.uid }

// isStale reports whether a reference refers to an earlier namesake of the candidate.
func (c candidate) isStale(ref *metav1.OwnerReference) bool {
	return c.isNamed(ref) && !c.isOwner(ref)
}

func (c candidate) reference() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion:         c.kind.GroupVersion().String(),
		Kind:               c.kind.Kind,
		Name:               c.name,
		UID:                c.uid,
		Controller:         ptr.To(true),
		BlockOwnerDeletion: ptr.To(true),
	}
}

// claimOwners is the information in the owner references of a claim about the set and the pod of its
// slot.
type claimOwners struct {
	ownedBy
	// stalePod and staleSet: there is a reference to an earlier namesake, so the garbage
	// collector is about to delete the claim.
	stalePod, staleSet bool
	// foreign: another object controls the claim.
	foreign bool
	// weak: the set or the pod owns the claim without controlling it.
	weak bool
}

func ownersOf(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) claimOwners {
	bySet, byPod := setCandidate(set), podCandidate(pod)
	var found claimOwners
	for i := range claim.OwnerReferences {
		ref := &claim.OwnerReferences[i]
		isSet, isPod := bySet.isOwner(ref), byPod.isOwner(ref)
		found.set = found.set || isSet
		found.pod = found.pod || isPod
		found.staleSet = found.staleSet || bySet.isStale(ref)
		found.stalePod = found.stalePod || byPod.isStale(ref)
		controls := ptr.Deref(ref.Controller, false)
		if isSet || isPod {
			found.weak = found.weak || !controls
			continue
		}
		found.foreign = found.foreign || controls
	}
	return found
}

// conflicts reports whether another object manages the claim, so that the policy is ignored for
// it.
func (o claimOwners) conflicts(p policy) bool {
	return p != retainsAll && (o.foreign || o.staleSet || o.stalePod)
}

// upToDate reports whether a claim has the owners that the policy requires, or must not be
// changed.
func (o claimOwners) upToDate(p policy, inRange bool) bool {
	switch {
	case o.staleSet || o.stalePod:
		return true
	case o.conflicts(p):
		return !o.set && !o.pod
	case o.weak:
		return false
	}
	return o.ownedBy == wantedOwners(p, inRange)
}

// withOwners returns a copy of a claim with the owners that the policy requires.
func withOwners(
	claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod,
) *corev1.PersistentVolumeClaim {
	bySet, byPod := setCandidate(set), podCandidate(pod)
	p := policyOf(set)
	wanted := wantedOwners(p, inRange(set, ordinalOf(pod)))
	if ownersOf(claim, set, pod).conflicts(p) {
		wanted = ownedBy{}
	}
	changed := claim.DeepCopy()
	changed.OwnerReferences = nil
	for _, ref := range claim.OwnerReferences {
		ours := bySet.isNamed(&ref) || byPod.isNamed(&ref) || bySet.isOwner(&ref) || byPod.isOwner(&ref)
		if !ours {
			changed.OwnerReferences = append(changed.OwnerReferences, ref)
		}
	}
	if wanted.set {
		changed.OwnerReferences = append(changed.OwnerReferences, bySet.reference())
	}
	if wanted.pod && byPod.uid != "" {
		changed.OwnerReferences = append(changed.OwnerReferences, byPod.reference())
	}
	return changed
}

// claimsMatchPolicy reports whether the claims of a pod's slot have the owners that the policy
// requires.
func (c *statefulSetController) claimsMatchPolicy(
	ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod,
) (bool, error) {
	if !knownPolicy(set) {
		klog.FromContext(ctx).Error(nil, "Unknown claim retention policy, retaining claims",
			"statefulSet", klog.KObj(set), "policy", set.Spec.PersistentVolumeClaimRetentionPolicy)
	}
	p, slotStays := policyOf(set), inRange(set, ordinalOf(pod))
	matches := true
	err := c.claimsOf(set, pod, func(claim *corev1.PersistentVolumeClaim) error {
		matches = matches && ownersOf(claim, set, pod).upToDate(p, slotStays)
		return nil
	})
	return matches, err
}

// claimsAreStale reports whether a claim of a pod's slot is owned by an earlier pod or set of that
// name, so that the garbage collector will delete it, and with it what a new pod writes.
func (c *statefulSetController) claimsAreStale(set *appsv1.StatefulSet, pod *corev1.Pod) (bool, error) {
	p := policyOf(set)
	if p == retainsAll {
		return false, nil
	}
	stale := false
	err := c.claimsOf(set, pod, func(claim *corev1.PersistentVolumeClaim) error {
		found := ownersOf(claim, set, pod)
		stale = stale || p.deleteWithPod && found.stalePod || p.deleteWithSet && found.staleSet
		return nil
	})
	return stale, err
}

// exceed reports whether a claim has an owner that the policy does not want, with which it would be deleted.
func (o claimOwners) exceed(p policy, inRange bool) bool {
	return o.goesWithPod(p, inRange) || o.set && !wantedOwners(p, inRange).set && !o.upToDate(p, inRange)
}

// goesWithPod reports whether a claim would be deleted with the pod of its slot, although the policy does not want that.
func (o claimOwners) goesWithPod(p policy, inRange bool) bool {
	return o.pod && !wantedOwners(p, inRange).pod && !o.upToDate(p, inRange)
}

// takesClaims reports whether claims that the policy retains would be deleted with a pod: the write that was to prevent
// that was refused. If the claims cannot be read, they are assumed to be right.
func (c *statefulSetController) takesClaims(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	p, slotStays := policyOf(set), inRange(set, ordinalOf(pod))
	takes := false
	err := c.claimsOf(set, pod, func(claim *corev1.PersistentVolumeClaim) error {
		takes = takes || ownersOf(claim, set, pod).goesWithPod(p, slotStays)
		return nil
	})
	return takes && err == nil
}

// withOwnedClaims returns the pods whose slots have claims with an owner that the policy does not want; missing ones
// are added to those given. Where claims are deleted with their pods, those of condemned pods are left alone, and so
// are those that belong to a pod that is being deleted: they go with it.
func (c *statefulSetController) withOwnedClaims(set *appsv1.StatefulSet, all []*corev1.Pod) ([]*corev1.Pod, error) {
	p := policyOf(set)
	missing, err := c.missingWithClaims(set, all)
	if err != nil {
		return nil, err
	}
	var owned []*corev1.Pod
	for _, pod := range slices.Concat(all, missing) {
		slotStays := inRange(set, ordinalOf(pod))
		if p.deleteWithPod && !slotStays && isCreated(pod) {
			continue
		}
		exceed, going := false, false
		err := c.claimsOf(set, pod, func(claim *corev1.PersistentVolumeClaim) error {
			found := ownersOf(claim, set, pod)
			exceed = exceed || found.exceed(p, slotStays)
			going = going || found.pod && p.deleteWithPod && pod.DeletionTimestamp != nil
			return nil
		})
		if err != nil {
			return nil, err
		}
		if exceed && !going {
			owned = append(owned, pod)
		}
	}
	return owned, nil
}

// missingWithClaims returns, for the slots whose claims the set owns, the pods that are not among those given; none if
// claims are to be deleted with the set.
func (c *statefulSetController) missingWithClaims(set *appsv1.StatefulSet, given []*corev1.Pod) ([]*corev1.Pod, error) {
	if policyOf(set).deleteWithSet {
		return nil, nil
	}
	slots, err := c.claimsBySet.slotsOf(set)
	if err != nil || len(slots) == 0 {
		return nil, err
	}
	for _, pod := range given {
		delete(slots, ordinalOf(pod))
	}
	var missing []*corev1.Pod
	for _, ordinal := range slices.Sorted(maps.Keys(slots)) {
		missing = append(missing, missingPod(set, ordinal))
	}
	return missing, nil
}

// fixClaimOwners sets the owners of the claims of a pod's slot as the policy requires, and reports whether any was
// changed by that.
func (c *statefulSetController) fixClaimOwners(
	ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod,
) (wrote bool, err error) {
	p, slotStays := policyOf(set), inRange(set, ordinalOf(pod))
	err = c.claimsOf(set, pod, func(claim *corev1.PersistentVolumeClaim) error {
		found := ownersOf(claim, set, pod)
		if found.conflicts(p) && ctx.Err() == nil {
			c.Record(conflictingController(set, claim))
		}
		if found.upToDate(p, slotStays) {
			return nil
		}
		claims := c.Client.CoreV1().PersistentVolumeClaims(claim.Namespace)
		updated, err := claims.Update(ctx, withOwners(claim, set, pod), metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			c.owners.EnqueueAfter(set, reconcile.RecheckAfter) // as a rule the cache does not show it yet
			return nil
		}
		if err != nil {
			return fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", claim.Name, err)
		}
		wrote = wrote || updated.ResourceVersion != claim.ResourceVersion // an admission webhook may keep the owners
		c.owners.Writes.Wrote(set, claimResource, updated.ResourceVersion)
		return nil
	})
	return wrote, err
}
