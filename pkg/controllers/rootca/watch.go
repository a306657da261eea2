package rootca

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (p *publisher) watch(namespaces, configMaps cache.SharedIndexInformer) {
	watch.Objects(configMaps, watch.Funcs[*corev1.ConfigMap]{
		Update: func(lane reconcile.Lane, _, cm *corev1.ConfigMap) { p.enqueueOwnerOf(lane, cm) },
		Delete: func(cm *corev1.ConfigMap) { p.enqueueOwnerOf(reconcile.Gone(cm), cm) },
	})
	watch.Objects(namespaces, watch.Funcs[*corev1.Namespace]{
		Add: func(lane reconcile.Lane, ns *corev1.Namespace) { p.queue.Enqueue(lane, ns.Name) },
		Update: func(lane reconcile.Lane, _, ns *corev1.Namespace) {
			if ns.Status.Phase == corev1.NamespaceActive {
				p.queue.Enqueue(lane, ns.Name)
			}
		},
	})
}

// enqueueOwnerOf enqueues the namespace of a published ConfigMap. The cache contains no other
// ConfigMap, unless the API server ignores the field selector.
func (p *publisher) enqueueOwnerOf(lane reconcile.Lane, cm *corev1.ConfigMap) {
	if cm.Name == configMapName {
		p.queue.Enqueue(lane, cm.Namespace)
	}
}
