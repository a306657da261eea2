package resourceclaim

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *claimController) watch(pods, claims, templates, groups cache.SharedIndexInformer) {
	watch.Objects(pods, watch.Funcs[*corev1.Pod]{
		Only: usesClaims,
		Add:  c.podSeen,
		Update: func(lane reconcile.Lane, old, pod *corev1.Pod) {
			if old.UID != pod.UID {
				c.podMissed(old)
			}
			c.podSeen(lane, pod)
		},
		Delete: c.podGone,
		Missed: c.podMissed,
	})
	watch.Objects(claims, watch.Funcs[*resourcev1.ResourceClaim]{
		Add: func(lane reconcile.Lane, claim *resourcev1.ResourceClaim) {
			c.census.add(claim)
			c.claimSeen(lane, claim)
		},
		Update: func(lane reconcile.Lane, old, claim *resourcev1.ResourceClaim) {
			c.census.remove(old)
			c.census.add(claim)
			c.claimSeen(lane, claim)
		},
		Delete: func(claim *resourcev1.ResourceClaim) {
			c.census.remove(claim)
			c.memory.ofClaims.Forget(claim)
			c.usersSeen(reconcile.Gone(claim), claim)
		},
	})
	watch.Objects(templates, watch.Funcs[*resourcev1.ResourceClaimTemplate]{
		AddOrUpdate: c.templateSeen,
	})
	if groups == nil {
		return
	}
	watch.Objects(groups, watch.Funcs[*schedulingv1alpha2.PodGroup]{
		Add: func(lane reconcile.Lane, group *schedulingv1alpha2.PodGroup) {
			c.groupSeen(lane, group)
			if len(group.Spec.ResourceClaims) == 0 {
				c.membersSeen(lane, group) // they have waited for it
			}
		},
		Update: func(lane reconcile.Lane, old, group *schedulingv1alpha2.PodGroup) {
			if old.UID != group.UID {
				c.groupMissed(old)
			}
			c.groupSeen(lane, group)
		},
		Delete: c.groupGone,
		Missed: c.groupMissed,
	})
}

// usesClaims reports whether a pod concerns this controller.
func usesClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// podSeen queues the claims of a pod that is done, and any other pod if it lacks something.
func (c *claimController) podSeen(lane reconcile.Lane, pod *corev1.Pod) {
	switch {
	case !usesClaims(pod):
	case isDone(pod):
		c.enqueueClaimsOf(lane, pod)
		c.enqueueGeneratedFor(lane, pod)
	case c.podNeedsWork(pod):
		c.queue.Enqueue(lane, keyOf(kindPod, pod))
	}
}

func (c *claimController) podGone(pod *corev1.Pod) {
	if !usesClaims(pod) {
		return
	}
	c.memory.ownerGone(pod)
	c.podMissed(pod)
}

// podMissed queues the claims of a pod that is gone, or that only a list lacked or replaced by another one, which may
// be the one that had the name before. Where the difference matters, the pod is read live.
func (c *claimController) podMissed(pod *corev1.Pod) {
	if !usesClaims(pod) {
		return
	}
	c.enqueueClaimsOf(reconcile.Gone(pod), pod)
	c.enqueueGeneratedFor(reconcile.Gone(pod), pod)
}

// enqueueClaimsOf queues the claims of a pod whose names are known, with that of its extended
// resources, which the scheduler creates.
func (c *claimController) enqueueClaimsOf(lane reconcile.Lane, pod *corev1.Pod) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		c.enqueueClaim(lane, pod.Namespace, name, err)
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		c.enqueueClaim(lane, pod.Namespace, &extended.ResourceClaimName, nil)
	}
}

// enqueueGeneratedFor queues the claims that were generated for a pod. The pod may be done before the name
// of one was recorded, or deleted before the cache has shown that.
func (c *claimController) enqueueGeneratedFor(lane reconcile.Lane, pod *corev1.Pod) {
	claims, err := c.find.generatedFor(pod)
	c.enqueueGenerated(lane, pod, claims, err)
}

// enqueueGenerated queues the claims that were generated for an owner, as they were found.
func (c *claimController) enqueueGenerated(
	lane reconcile.Lane, owner metav1.Object, claims []*resourcev1.ResourceClaim, err error,
) {
	if err != nil {
		klog.Background().Error(err, "Failed to look up the claims that were generated", "owner", klog.KObj(owner))
	}
	for _, claim := range claims {
		c.queue.Enqueue(lane, keyOf(kindClaim, claim))
	}
}

// enqueueClaim queues a claim, unless its name is unknown or there is none.
func (c *claimController) enqueueClaim(lane reconcile.Lane, namespace string, name *string, err error) {
	if err != nil || name == nil || *name == "" {
		return
	}
	c.queue.Enqueue(lane, key{kindClaim, types.NamespacedName{Namespace: namespace, Name: *name}})
}

func (c *claimController) claimSeen(lane reconcile.Lane, claim *resourcev1.ResourceClaim) {
	c.memory.shown(claim)
	if mayBeFreed(claim) {
		c.queue.Enqueue(lane, keyOf(kindClaim, claim))
	}
	c.usersSeen(lane, claim)
}

// mayBeFreed is false if nothing can have to be done for a claim itself: nobody has it reserved,
// nobody deleted it, and it was not generated for a pod.
func mayBeFreed(claim *resourcev1.ResourceClaim) bool {
	return len(claim.Status.ReservedFor) > 0 || claim.DeletionTimestamp != nil || podOf(claim) != nil
}

// usersSeen examines the pods and PodGroups that name a claim.
func (c *claimController) usersSeen(lane reconcile.Lane, claim *resourcev1.ResourceClaim) {
	c.podsSeen(lane)(c.find.podsUnder(podsByClaim, claim))
	c.groupsSeen(lane)(c.find.groupsUnder(groupsByClaim, claim))
}

func (c *claimController) templateSeen(lane reconcile.Lane, template *resourcev1.ResourceClaimTemplate) {
	c.podsSeen(lane)(c.find.podsUnder(podsByTemplate, template))
	c.groupsSeen(lane)(c.find.groupsUnder(groupsByTemplate, template))
}

func (c *claimController) podsSeen(lane reconcile.Lane) func([]*corev1.Pod, error) {
	return func(pods []*corev1.Pod, err error) {
		if err != nil {
			klog.Background().Error(err, "Failed to look up pods by what they refer to")
		}
		for _, pod := range pods {
			c.podSeen(lane, pod)
		}
	}
}

func (c *claimController) groupsSeen(lane reconcile.Lane) func([]*schedulingv1alpha2.PodGroup, error) {
	return func(groups []*schedulingv1alpha2.PodGroup, err error) {
		if err != nil {
			klog.Background().Error(err, "Failed to look up PodGroups by what they refer to")
		}
		for _, group := range groups {
			c.groupSeen(lane, group)
		}
	}
}

// groupSeen queues a PodGroup that lacks a claim, and its pods that lack something.
func (c *claimController) groupSeen(lane reconcile.Lane, group *schedulingv1alpha2.PodGroup) {
	if len(group.Spec.ResourceClaims) == 0 {
		return
	}
	if c.groupNeedsWork(group) {
		c.queue.Enqueue(lane, keyOf(kindPodGroup, group))
	}
	c.membersSeen(lane, group)
}

func (c *claimController) groupGone(group *schedulingv1alpha2.PodGroup) {
	if len(group.Spec.ResourceClaims) == 0 {
		return
	}
	c.memory.ownerGone(group)
	c.groupMissed(group)
}

// groupMissed is podMissed with a PodGroup, whose members are examined besides.
func (c *claimController) groupMissed(group *schedulingv1alpha2.PodGroup) {
	if len(group.Spec.ResourceClaims) == 0 {
		return
	}
	for i := range group.Spec.ResourceClaims {
		name, _, err := resourceclaim.NameFromPodGroup(group, &group.Spec.ResourceClaims[i])
		c.enqueueClaim(reconcile.Gone(group), group.Namespace, name, err)
	}
	claims, err := c.find.generatedForGroup(group)
	c.enqueueGenerated(reconcile.Gone(group), group, claims, err)
	c.membersSeen(reconcile.Gone(group), group)
}

func (c *claimController) membersSeen(lane reconcile.Lane, group *schedulingv1alpha2.PodGroup) {
	c.podsSeen(lane)(c.find.podsUnder(index.PodsByGroup, group))
}
