package pvcprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *protectionController) watch(claims, pods cache.SharedIndexInformer) {
	watch.Objects(claims, watch.Funcs[*corev1.PersistentVolumeClaim]{
		Add:    c.claimAdded,
		Update: func(lane reconcile.Lane, _, claim *corev1.PersistentVolumeClaim) { c.claimSeen(lane, claim) },
	})
	watch.Objects(pods, watch.Funcs[*corev1.Pod]{
		Only:   usesClaims,
		Add:    c.podSeen,
		Update: c.podUpdated,
		Delete: func(pod *corev1.Pod) { c.enqueueClaimsOf(reconcile.Gone(pod), pod) },
	})
}

// claimAdded enqueues a claim that the cache shows for the first time, or again after a list that lacked it. In the
// meantime events of its pods led to no claim, so its condition may be wrong, whatever it says.
func (c *protectionController) claimAdded(lane reconcile.Lane, claim *corev1.PersistentVolumeClaim) {
	if c.unusedSince && !lane.IsBacklog() && claim.DeletionTimestamp == nil {
		c.queue.Enqueue(lane, reconcile.KeyOf(claim))
		return
	}
	c.claimSeen(lane, claim)
}

func (c *protectionController) claimSeen(lane reconcile.Lane, claim *corev1.PersistentVolumeClaim) {
	lacksCondition := unusedCondition(claim) == nil || lane.IsBacklog() && mayBeUnused(claim)
	if finalizer.Concerns(claim) || c.unusedSince && (lacksCondition || c.isShownWrongly(claim)) {
		c.queue.Enqueue(lane, reconcile.KeyOf(claim))
	}
}

// isShownWrongly reports whether the condition of a claim contradicts the cached pods. Their events may have led to a
// pass that still saw the condition before the last write, with which nothing was wrong.
func (c *protectionController) isShownWrongly(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp == nil && isShownUnused(claim) == c.isUsedByCached(context.Background(), claim)
}

// mayBeUnused reports whether a claim may lack the condition without an event that would lead to it: its last pod may
// have been deleted while no instance ran.
func mayBeUnused(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp == nil && !isShownUnused(claim)
}

// usesClaims reports whether a pod has volumes that are claims.
func usesClaims(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if index.ClaimOf(pod, &pod.Spec.Volumes[i]) != "" {
			return true
		}
	}
	return false
}

func (c *protectionController) podSeen(lane reconcile.Lane, pod *corev1.Pod) {
	if c.unusedSince || mayRelease(pod) {
		c.enqueueClaimsOf(lane, pod)
	}
}

func (c *protectionController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	if old.UID != pod.UID { // deleted and recreated, seen as one update
		c.enqueueClaimsOf(lane, old)
	}
	c.podSeen(lane, pod)
}

// enqueueClaimsOf enqueues the claims of a pod that depend on their pods. If the cache does not
// contain a claim or its deletion yet, the event of the claim enqueues it.
func (c *protectionController) enqueueClaimsOf(lane reconcile.Lane, pod *corev1.Pod) {
	for i := range pod.Spec.Volumes {
		name := index.ClaimOf(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil || !c.dependsOnPods(claim) {
			continue
		}
		c.queue.Enqueue(lane, types.NamespacedName{Namespace: pod.Namespace, Name: name})
	}
}

// dependsOnPods reports whether reconciling a claim depends on the pods that refer to it.
func (c *protectionController) dependsOnPods(claim *corev1.PersistentVolumeClaim) bool {
	return finalizer.Blocks(claim) || c.unusedSince && claim.DeletionTimestamp == nil
}
