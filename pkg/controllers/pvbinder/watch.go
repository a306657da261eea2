package pvbinder

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch keeps the stores up to date, and queues what has changed.
func (c *binderController) watch(volumes, claims cache.SharedIndexInformer) {
	watch.Objects(volumes, watch.Funcs[*corev1.PersistentVolume]{
		Add: c.volumeSeen,
		Update: func(lane reconcile.Lane, old, v *corev1.PersistentVolume) {
			if old.UID != v.UID { // deleted and recreated, seen as one update
				c.volumeGone(old)
			}
			c.volumeSeen(lane, v)
		},
		Delete: c.volumeGone,
	})
	watch.Objects(claims, watch.Funcs[*corev1.PersistentVolumeClaim]{
		Add: c.claimSeen,
		Update: func(lane reconcile.Lane, old, claim *corev1.PersistentVolumeClaim) {
			if old.UID != claim.UID {
				c.claimGone(old)
			}
			c.claimSeen(lane, claim)
		},
		Delete: c.claimGone,
	})
}

func (c *binderController) volumeSeen(lane reconcile.Lane, v *corev1.PersistentVolume) {
	c.volumes.seen(v.Name, v)
	c.volumeQueue.Enqueue(lane, v.Name)
}

func (c *binderController) claimSeen(lane reconcile.Lane, claim *corev1.PersistentVolumeClaim) {
	c.claims.seen(keyOf(claim), claim)
	c.claimQueue.Enqueue(lane, reconcile.KeyOf(claim))
}

// volumeGone enqueues the claim of a deleted volume, which is lost.
func (c *binderController) volumeGone(v *corev1.PersistentVolume) {
	c.volumes.gone(v.Name)
	c.gone.forget(v.Name)
	c.timings.complete(operationDelete, v.UID)
	c.stopRecycle(v.Name, v.UID)
	if ref := v.Spec.ClaimRef; ref != nil {
		c.claimQueue.Enqueue(reconcile.Fresh, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	}
}

// hasGone reports whether a volume has been deleted or replaced. Code that remembers something about a volume
// calls it afterwards, and forgets it again if so: volumeGone may have been called before, and is called only
// once.
func (c *binderController) hasGone(v *corev1.PersistentVolume) bool {
	known := c.volumes.get(v.Name)
	return known == nil || known.UID != v.UID
}

// claimGone enqueues the volume of a deleted claim, which is to be released.
func (c *binderController) claimGone(claim *corev1.PersistentVolumeClaim) {
	c.claims.gone(keyOf(claim))
	c.timings.drop(operationProvision, claim.UID)
	if claim.Spec.VolumeName != "" {
		c.volumeQueue.Enqueue(reconcile.Gone(claim), claim.Spec.VolumeName)
	}
}

// resync queues the claims and volumes for which something may have to be done although they have not
// changed, and deletes pods that empty volumes which are gone.
func (c *binderController) resync(context.Context, context.Context) {
	c.abandonRemnants()
	for _, claim := range c.claims.all() {
		if !c.isSettled(claim, c.volumes.get(claim.Spec.VolumeName)) {
			c.claimQueue.Enqueue(reconcile.Backlog, reconcile.KeyOf(claim))
		}
	}
	for _, v := range c.volumes.all() {
		if v.Spec.ClaimRef == nil || !c.isSettled(c.claims.get(claimKeyOf(v)), v) {
			c.volumeQueue.Enqueue(reconcile.Backlog, v.Name)
		}
	}
}

// isSettled reports whether nothing is to be done for a claim and a volume: they are bound to each other,
// both say so, and no pod empties the volume. Either may be nil.
func (c *binderController) isSettled(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	switch {
	case claim == nil, v == nil, v.Spec.ClaimRef == nil:
		return false
	case claim.Spec.VolumeName != v.Name, v.Spec.ClaimRef.UID != claim.UID, claimKeyOf(v) != keyOf(claim):
		return false
	case !isBindCompleted(claim), claim.Status.Phase != corev1.ClaimBound, v.Status.Phase != corev1.VolumeBound:
		return false
	}
	if _, recycled := c.recycles.podOf(v.UID); recycled {
		return false
	}
	status, err := boundStatus(claim, v, c.vac)
	return err == nil && status == nil && withMigrationAnnotation(claim) == nil && withMigrationAndFinalizers(v) == nil
}
