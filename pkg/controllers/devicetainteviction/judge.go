package devicetainteviction

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// judgeUsers judges the pods for which claims are reserved. The caller holds the lock.
func (c *evictionController) judgeUsers(claims []*resourcev1.ResourceClaim) {
	for _, claim := range claims {
		c.usersOf(claim.Namespace, claim.Status.ReservedFor, c.judge)
	}
}

// judge makes, changes, keeps or cancels the appointment for a pod, based on the caches. The caller holds
// the lock.
func (c *evictionController) judge(key types.NamespacedName) {
	pod, found, err := reconcile.Found(c.pods.Pods(key.Namespace).Get(key.Name))
	if err != nil {
		return // no lister returns another error
	}
	existing, pending := c.appointments.all[key]
	if pending && (!found || pod.UID != existing.uid || c.isEvicted(key, existing.uid)) {
		c.appointments.drop(key)
		c.reportLater(existing.reasons)
		pending = false
	}
	if !found || c.isEvicted(key, pod.UID) {
		return
	}
	is := c.verdictOn(c.taints, pod)
	switch {
	case is.stays() && !pending, pending && is.equal(existing.verdict):
	case is.stays():
		c.logger.V(2).Info("Cancelling the eviction of a pod", "pod", key, "due", existing.due)
		c.appointments.drop(key)
		c.reportLater(existing.reasons)
		c.Record(evictionCancelled(key, existing.uid))
	default:
		c.logger.V(2).Info("Pod is to be evicted", "pod", key, "node", pod.Spec.NodeName, "due", is.due)
		c.appointments.set(key, appointment{pod.UID, is})
		c.evictLater(item{NamespacedName: key, uid: pod.UID}, is.due)
		c.reportLater(existing.reasons)
		c.reportLater(is.reasons)
	}
}

// verdictOn judges a pod by taints.
func (c *evictionController) verdictOn(by taints, pod *corev1.Pod) verdict {
	return by.ofPod(pod, c.podGroups, func(name string) *resourcev1.ResourceClaim {
		claim, found, err := reconcile.Found(c.claims.ResourceClaims(pod.Namespace).Get(name))
		if err != nil || !found {
			return nil
		}
		return claim
	})
}

func (c *evictionController) isEvicted(key types.NamespacedName, uid types.UID) bool {
	evicted, ok := c.evicted[key]
	return ok && evicted == uid
}

// rememberEvicted remembers that the eviction of a pod has ended, for as long as the cache shows the pod. The event
// that follows when it no longer does has it forgotten. The caller holds the lock.
func (c *evictionController) rememberEvicted(key types.NamespacedName, uid types.UID) {
	if c.isCached(key, uid) {
		c.evicted[key] = uid
	}
}

// forgetEvicted forgets a pod that was evicted and is gone. The caller holds the lock.
func (c *evictionController) forgetEvicted(key types.NamespacedName) {
	if uid, ok := c.evicted[key]; ok && !c.isCached(key, uid) {
		delete(c.evicted, key)
	}
}

// isCached reports whether the cache shows a pod.
func (c *evictionController) isCached(key types.NamespacedName, uid types.UID) bool {
	pod, err := c.pods.Pods(key.Namespace).Get(key.Name)
	return err == nil && pod.UID == uid
}

// reportLater enqueues the rules among the reasons of a changed appointment, so that their status is
// updated. The delay allows further changes to share the same update.
func (c *evictionController) reportLater(reasons []reason) {
	for _, why := range reasons {
		if why.isRule() && c.rules != nil { // the predecessor may have had rules
			c.queue.AddAfter(keyOf(why.rule, why.uid), reportPeriod)
		}
	}
}
