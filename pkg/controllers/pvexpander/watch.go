package pvexpander

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *expander) watch(claims cache.SharedIndexInformer) {
	watch.Objects(claims, watch.Funcs[*corev1.PersistentVolumeClaim]{Add: c.claimSeen, Update: c.claimUpdated})
}

func (c *expander) claimSeen(lane reconcile.Lane, claim *corev1.PersistentVolumeClaim) {
	if claim.Status.Phase == corev1.ClaimBound {
		c.queue.Enqueue(lane, reconcile.KeyOf(claim))
	}
}

// claimUpdated enqueues a claim that requests more or has more than before. The latter is what a
// kubelet writes when it has expanded the file system.
func (c *expander) claimUpdated(lane reconcile.Lane, old, claim *corev1.PersistentVolumeClaim) {
	if old.UID != claim.UID || grew(requested(old), requested(claim)) || grew(capacityOf(old), capacityOf(claim)) {
		c.claimSeen(lane, claim)
	}
}
