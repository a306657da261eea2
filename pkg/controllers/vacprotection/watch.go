package vacprotection

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *protectionController) watch(classes, volumes, claims cache.SharedIndexInformer) {
	watch.Objects(classes, watch.Funcs[*storagev1.VolumeAttributesClass]{
		AddOrUpdate: c.classSeen,
	})
	watch.Objects(volumes, watch.Funcs[*corev1.PersistentVolume]{
		Update: func(lane reconcile.Lane, old, volume *corev1.PersistentVolume) {
			c.referencesChanged(lane, ofVolume(old), ofVolume(volume))
		},
		Delete: func(volume *corev1.PersistentVolume) {
			c.referencesChanged(reconcile.Gone(volume), ofVolume(volume), references{})
		},
	})
	watch.Objects(claims, watch.Funcs[*corev1.PersistentVolumeClaim]{
		Update: func(lane reconcile.Lane, old, claim *corev1.PersistentVolumeClaim) {
			c.referencesChanged(lane, ofClaim(old), ofClaim(claim))
		},
		Delete: func(claim *corev1.PersistentVolumeClaim) {
			c.referencesChanged(reconcile.Gone(claim), ofClaim(claim), references{})
		},
	})
}

func (c *protectionController) classSeen(lane reconcile.Lane, class *storagev1.VolumeAttributesClass) {
	if finalizer.Concerns(class) {
		c.queue.Enqueue(lane, class.Name)
	}
}

// referencesChanged enqueues the classes that an object no longer refers to if they wait for that. If
// the cache does not contain the deletion of a class yet, the event of the class enqueues it.
func (c *protectionController) referencesChanged(lane reconcile.Lane, old, now references) {
	for _, name := range old.without(now) {
		if class, err := c.classes.Get(name); err == nil && finalizer.Blocks(class) {
			c.queue.Enqueue(lane, name)
		}
	}
}
