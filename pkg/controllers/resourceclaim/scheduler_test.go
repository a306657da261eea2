package resourceclaim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// The model plays the scheduler, and what the kubelet does about claims.

// claimsIn returns the entries of a pod that need a claim. Extended resources are one of them.
func claimsIn(pod *corev1.Pod) []entry {
	if pod.Annotations[extended] != "" {
		return []entry{ofTemplate(extended, "")}
	}
	return pod.Spec.ResourceClaims
}

// claimFor returns the claim of an entry of a pod as the scheduler and the kubelet find it, with the consumer.
func (m *model) claimFor(pod *corev1.Pod, entry *corev1.PodResourceClaim) (*resourcev1.ResourceClaim, consumer) {
	if entry.Name == extended {
		return m.extendedOf(pod), podConsumer(&metav1.OwnerReference{Name: pod.Name, UID: pod.UID})
	}
	var group *schedulingv1alpha2.PodGroup
	if pod.Spec.SchedulingGroup != nil && m.config.podGroups {
		var ok bool
		if group, ok = m.group(*pod.Spec.SchedulingGroup.PodGroupName); !ok {
			return nil, consumer{}
		}
	}
	name, mustBeOwn, err := resourceclaim.Name(pod, entry)
	if err != nil || name == nil {
		return nil, consumer{}
	}
	claim, ok := m.claim(*name)
	if !ok || mustBeOwn && resourceclaim.IsForPod(pod, claim, group != nil) != nil {
		return nil, consumer{}
	}
	return claim, must.Get(resourceclaim.BindTo(pod, group, entry))(m.t)
}

func (m *model) extendedOf(pod *corev1.Pod) *resourcev1.ResourceClaim {
	if all := m.claimsOf(pod.UID); len(all) > 0 {
		return all[0]
	}
	return nil
}

// createExtended has the scheduler create the claim for the extended resources of a pod.
func (m *model) createExtended(pod *corev1.Pod) bool {
	if pod.Annotations[extended] == "" {
		return false
	}
	c := claim(generatedFor(pod.UID, ""), protected)
	c.ObjectMeta = metav1.ObjectMeta{
		Namespace: "ns", GenerateName: pod.Name + "-extended-", OwnerReferences: c.OwnerReferences, Finalizers: c.Finalizers,
		Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
	}
	c.OwnerReferences[0].Name = pod.Name
	m.Create(c)
	return true
}

// isWaiting reports whether a pod lacks a claim or a reservation.
func (m *model) isWaiting(pod *corev1.Pod) bool {
	for _, e := range claimsIn(pod) {
		claim, _ := m.claimFor(pod, &e)
		if claim == nil || !resourceclaim.IsReservedForPod(pod, claim, m.config.podGroups) {
			return true
		}
	}
	return m.lacksRecord(pod)
}

// lacksRecord reports whether the claim for the extended resources of a pod is not recorded in it.
func (m *model) lacksRecord(pod *corev1.Pod) bool {
	if pod.Annotations[extended] == "" {
		return false
	}
	recorded := pod.Status.ExtendedResourceClaimStatus
	return recorded == nil || recorded.ResourceClaimName != m.extendedOf(pod).Name
}

// waits has the kubelet start, and Kubelet bind, no pod that lacks a claim.
func (m *model) waits(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending && m.isWaiting(pod)
}

// schedule reserves a claim that a pod lacks. Pods that were created with a node are not scheduled. It reports whether
// anything was done.
func (m *model) schedule(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return false
	}
	for _, e := range claimsIn(pod) {
		claim, by := m.claimFor(pod, &e)
		switch {
		case claim == nil:
			return m.createExtended(pod)
		case claim.DeletionTimestamp != nil:
			return m.unreserve(claim, by)
		case resourceclaim.IsReservedForPod(pod, claim, m.config.podGroups):
			continue
		case !isProtected(claim):
			m.Note("scheduler protects %s", claim.Name)
			simulation.Change(m.World, claim, protected)
		default:
			m.Note("scheduler reserves %s for %s %s", claim.Name, by.Name, by.UID)
			simulation.Change(m.World, claim, allocated, func(c *resourcev1.ResourceClaim) {
				c.Status.ReservedFor = append(c.Status.ReservedFor, by)
			})
		}
		return true
	}
	if pod == m.gone || !m.lacksRecord(pod) {
		return false
	}
	m.Note("scheduler records the claim of %s", pod.Name)
	name := m.extendedOf(pod).Name
	simulation.Change(m.World, pod, func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: name}
	})
	return true
}

// unreserve has the scheduler give up a claim, which is being deleted, for a pod that it has not bound yet.
func (m *model) unreserve(claim *resourcev1.ResourceClaim, by consumer) bool {
	if !isPodConsumer(by) || !slices.Contains(claim.Status.ReservedFor, by) {
		return false
	}
	m.Note("scheduler gives up %s for %s %s", claim.Name, by.Name, by.UID)
	simulation.Change(m.World, claim, func(c *resourcev1.ResourceClaim) {
		c.Status.ReservedFor = slices.DeleteFunc(c.Status.ReservedFor, func(other consumer) bool { return other == by })
	})
	return true
}
