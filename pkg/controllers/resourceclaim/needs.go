package resourceclaim

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// isDone reports whether a pod uses no claims any more. It never does again.
func isDone(pod *corev1.Pod) bool {
	return pods.IsTerminal(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

// podNeedsWork reports whether an entry of a pod that is not done lacks its claim or, if the pod
// was bound to a node without a scheduler, the reservation.
func (c *claimController) podNeedsWork(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Spec.ResourceClaims {
		if c.podEntryNeedsWork(pod, &pod.Spec.ResourceClaims[i]) {
			return true
		}
	}
	return false
}

func (c *claimController) podEntryNeedsWork(pod *corev1.Pod, entry *corev1.PodResourceClaim) bool {
	name, mustBeOwn, err := resourceclaim.Name(pod, entry)
	if err != nil {
		return true // not generated yet
	}
	if name == nil {
		return false
	}
	claim, found, err := reconcile.Found(c.claims.ResourceClaims(pod.Namespace).Get(*name))
	switch {
	case err != nil:
		return true
	case !found:
		return entry.ResourceClaimTemplateName != nil && c.isToReplace(pod, entry, *name)
	case mustBeOwn && c.isForPod(pod, claim) != nil:
		return false
	}
	return pod.Spec.NodeName != "" && c.isToReserve(pod, claim)
}

// isToReplace reports whether there is something to do about the recorded claim of an entry, which is missing: another
// one is to be generated for the pod, or was generated for its PodGroup and is to be recorded.
func (c *claimController) isToReplace(pod *corev1.Pod, entry *corev1.PodResourceClaim, recorded string) bool {
	group, err := c.groupOf(pod)
	if err != nil {
		return true
	}
	consumer, err := resourceclaim.BindTo(pod, group, entry)
	if err != nil || consumer.Resource == "pods" {
		return err == nil
	}
	claim, err := c.claimOf(c.groupOwner(group), entry.Name)
	return err != nil || claim != nil && claim.Name != recorded
}

// isToReserve reports whether a claim is allocated, and neither reserved for the pod nor for its
// PodGroup. One that is being deleted, or has as many consumers as there can be, gets no more: the API server refuses
// them.
func (c *claimController) isToReserve(pod *corev1.Pod, claim *resourcev1.ResourceClaim) bool {
	return claim.Status.Allocation != nil && claim.DeletionTimestamp == nil &&
		len(claim.Status.ReservedFor) < resourcev1.ResourceClaimReservedForMaxSize &&
		!resourceclaim.IsReservedForPod(pod, claim, c.podGroups) && resourceclaim.CanBeReserved(claim)
}

// isForPod returns an error if a claim was generated neither for a pod nor for its PodGroup. The
// library reads the name of the group, so it is asked about it only if there is one.
func (c *claimController) isForPod(pod *corev1.Pod, claim *resourcev1.ResourceClaim) error {
	return resourceclaim.IsForPod(pod, claim, c.podGroups && index.GroupOf(pod) != "")
}

// groupNeedsWork reports whether an entry of a PodGroup lacks its claim.
func (c *claimController) groupNeedsWork(group *schedulingv1alpha2.PodGroup) bool {
	if group.DeletionTimestamp != nil {
		return false
	}
	for i := range group.Spec.ResourceClaims {
		entry := &group.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.NameFromPodGroup(group, entry)
		if err != nil {
			return true
		}
		if name == nil || entry.ResourceClaimTemplateName == nil {
			continue
		}
		if _, found, err := reconcile.Found(c.claims.ResourceClaims(group.Namespace).Get(*name)); !found || err != nil {
			return true
		}
	}
	return false
}
