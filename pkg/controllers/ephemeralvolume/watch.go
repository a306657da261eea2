package ephemeralvolume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *volumeController) watch(pods, claims cache.SharedIndexInformer) {
	watch.Objects(pods, watch.Funcs[*corev1.Pod]{Only: wantsClaims, Add: c.podSeen, Update: c.podUpdated})
	watch.Objects(claims, watch.Funcs[*corev1.PersistentVolumeClaim]{Delete: c.claimGone})
}

func (c *volumeController) podSeen(lane reconcile.Lane, pod *corev1.Pod) {
	if wantsClaims(pod) {
		c.queue.Enqueue(lane, reconcile.KeyOf(pod))
	}
}

func (c *volumeController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	if old.UID != pod.UID { // deleted and recreated, seen as one update
		c.podSeen(lane, pod)
	}
}

// claimGone enqueues the pods whose volumes refer to the name of a claim, whoever created it.
func (c *volumeController) claimGone(claim *corev1.PersistentVolumeClaim) {
	pods, err := c.podsOf.Of(reconcile.KeyOf(claim))
	if err != nil {
		klog.Background().Error(err, "Looking up the pods of a deleted claim failed", "claim", klog.KObj(claim))
	}
	for _, pod := range pods {
		c.podSeen(reconcile.Gone(claim), pod)
	}
}

// wantsClaims reports whether a pod has volumes that need claims.
func wantsClaims(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Spec.Volumes, isEphemeral)
}

func isEphemeral(volume corev1.Volume) bool { return volume.Ephemeral != nil }
