package pvprotection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *protectionController) watch(volumes cache.SharedIndexInformer) {
	watch.Objects(volumes, watch.Funcs[*corev1.PersistentVolume]{
		AddOrUpdate: c.volumeSeen,
	})
}

func (c *protectionController) volumeSeen(lane reconcile.Lane, volume *corev1.PersistentVolume) {
	if finalizer.Concerns(volume) {
		c.queue.Enqueue(lane, volume.Name)
	}
}
