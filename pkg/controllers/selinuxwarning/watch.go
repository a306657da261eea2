package selinuxwarning

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues pods: new ones and those that have ended, and the users of volumes that may be used differently from
// now on.
func (c *warner) watch(podInformer, claims, persistent, drivers cache.SharedIndexInformer) {
	watch.Objects(podInformer, watch.Funcs[*corev1.Pod]{
		Add:    func(lane reconcile.Lane, pod *corev1.Pod) { c.loop.Enqueue(lane, reconcile.KeyOf(pod)) },
		Update: c.podUpdated,
		Delete: func(pod *corev1.Pod) { c.loop.Add(reconcile.KeyOf(pod)) },
	})
	watch.Objects(claims, watch.Funcs[*corev1.PersistentVolumeClaim]{
		Add: func(lane reconcile.Lane, claim *corev1.PersistentVolumeClaim) {
			c.claimChanged(lane, &corev1.PersistentVolumeClaim{}, claim)
		},
		Update: c.claimChanged,
	})
	watch.Objects(persistent, watch.Funcs[*corev1.PersistentVolume]{
		Add: func(lane reconcile.Lane, volume *corev1.PersistentVolume) {
			c.volumeChanged(lane, &corev1.PersistentVolume{}, volume)
		},
		Update: c.volumeChanged,
	})
	watch.Objects(drivers, watch.Funcs[*storagev1.CSIDriver]{
		Add: c.driverSeen, Update: c.driverUpdated, Delete: c.driverGone,
	})
}

// podUpdated enqueues a pod that has finished. What a pod asks for does not change while it lives.
func (c *warner) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	if old.UID != pod.UID || old.Status.Phase != pod.Status.Phase && pods.IsTerminal(pod) {
		c.loop.Enqueue(lane, reconcile.KeyOf(pod))
	}
}

// claimChanged enqueues the pods of a claim that was bound to a volume.
func (c *warner) claimChanged(lane reconcile.Lane, old, claim *corev1.PersistentVolumeClaim) {
	isBound := claim.Status.Phase == corev1.ClaimBound
	switch {
	case claim.UID != old.UID && claim.Spec.VolumeName != "",
		claim.Spec.VolumeName != old.Spec.VolumeName,
		isBound && old.Status.Phase != corev1.ClaimBound:
		c.enqueuePodsOf(lane, reconcile.KeyOf(claim))
	}
}

// volumeChanged enqueues the pods of the claim that a volume was bound to.
func (c *warner) volumeChanged(lane reconcile.Lane, old, volume *corev1.PersistentVolume) {
	was, is := old.Spec.ClaimRef, volume.Spec.ClaimRef
	if is != nil && is.UID != "" && (was == nil || was.UID != is.UID) {
		c.enqueuePodsOf(lane, types.NamespacedName{Namespace: is.Namespace, Name: is.Name})
	}
}

func (c *warner) enqueuePodsOf(lane reconcile.Lane, claim types.NamespacedName) {
	users, err := c.podsOf.Of(claim)
	if err != nil {
		klog.Background().Error(err, "Looking up the pods of a claim failed", "claim", claim)
	}
	for _, pod := range users {
		c.loop.Enqueue(lane, reconcile.KeyOf(pod))
	}
}

func (c *warner) driverSeen(lane reconcile.Lane, driver *storagev1.CSIDriver) {
	for _, key := range c.uses.of(driver.Name) {
		c.loop.Enqueue(lane, key)
	}
}

func (c *warner) driverUpdated(lane reconcile.Lane, old, driver *storagev1.CSIDriver) {
	if mountsWithLabel(old) != mountsWithLabel(driver) {
		c.driverSeen(lane, driver)
	}
}

func (c *warner) driverGone(driver *storagev1.CSIDriver) {
	if mountsWithLabel(driver) {
		c.driverSeen(reconcile.Gone(driver), driver)
	}
}

// mountsWithLabel reports whether a CSI driver mounts its volumes with a label.
func mountsWithLabel(driver *storagev1.CSIDriver) bool {
	return driver.Spec.SELinuxMount != nil && *driver.Spec.SELinuxMount
}
