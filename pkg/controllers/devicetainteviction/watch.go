package devicetainteviction

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// The handlers judge the pods that a change affects. There is no resync: it would not show anything new.

func (c *evictionController) watchPods(pods cache.SharedIndexInformer) {
	watch.ObjectsEvery(pods, 0, watch.Funcs[*corev1.Pod]{
		Only:        usesClaims,
		UpdateIf:    func(old, pod *corev1.Pod) bool { return !sameUse(old, pod) },
		AddOrUpdate: func(_ reconcile.Lane, pod *corev1.Pod) { c.podChanged(pod) },
		Delete:      c.podChanged,
	})
}

// usesClaims reports whether a pod uses claims, or the scheduler has created one for its extended resources.
func usesClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// sameUse reports whether two states of a pod use the same claims on the same node. Most updates are for
// pods without claims.
func sameUse(old, pod *corev1.Pod) bool {
	if !usesClaims(old) && !usesClaims(pod) {
		return true
	}
	return old.UID == pod.UID && old.Spec.NodeName == pod.Spec.NodeName &&
		resourceclaim.PodStatusEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses) &&
		resourceclaim.PodExtendedStatusEqual(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus)
}

func (c *evictionController) watchClaims(claims cache.SharedIndexInformer) {
	watch.ObjectsEvery(claims, 0, watch.Funcs[*resourcev1.ResourceClaim]{
		Add: func(_ reconcile.Lane, claim *resourcev1.ResourceClaim) { c.claimChanged(claim) },
		Update: func(_ reconcile.Lane, old, claim *resourcev1.ResourceClaim) {
			c.claimUpdated(old, claim)
		},
		Delete: func(claim *resourcev1.ResourceClaim) { c.claimChanged(claim) },
	})
}

func (c *evictionController) watchSlices(all cache.SharedIndexInformer) {
	watch.ObjectsEvery(all, 0, watch.Funcs[*resourcev1.ResourceSlice]{
		Add: func(_ reconcile.Lane, slice *resourcev1.ResourceSlice) { c.poolChanged(poolOf(slice)) },
		Update: func(_ reconcile.Lane, old, slice *resourcev1.ResourceSlice) {
			if poolOf(old) != poolOf(slice) { // another slice of that name
				c.poolChanged(poolOf(old))
			}
			c.poolChanged(poolOf(slice))
		},
		Delete: func(slice *resourcev1.ResourceSlice) { c.poolChanged(poolOf(slice)) },
	})
}

func (c *evictionController) watchRules(rules cache.SharedIndexInformer) {
	watch.ObjectsEvery(rules, 0, watch.Funcs[*resourcev1beta2.DeviceTaintRule]{
		Add: func(_ reconcile.Lane, rule *resourcev1beta2.DeviceTaintRule) { c.ruleChanged(nil, rule) },
		Update: func(_ reconcile.Lane, old, rule *resourcev1beta2.DeviceTaintRule) {
			switch {
			case old.UID != rule.UID || !equality.Semantic.DeepEqual(old.Spec, rule.Spec):
				c.ruleChanged(old, rule)
			case !equality.Semantic.DeepEqual(shownCondition(old), shownCondition(rule)):
				c.statusChanged(rule)
			}
		},
		Delete: func(rule *resourcev1beta2.DeviceTaintRule) { c.ruleChanged(rule, nil) },
	})
}
