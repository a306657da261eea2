package ttl

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch counts nodes, and queues those that are new or whose annotation is wrong. Updates and
// resyncs are how existing nodes get a new value, so none is skipped.
func (c *ttlController) watch(nodes cache.SharedIndexInformer) {
	watch.Objects(nodes, watch.Funcs[*corev1.Node]{
		Add: func(lane reconcile.Lane, node *corev1.Node) {
			c.size.added()
			c.queue.Enqueue(lane, node.Name)
		},
		Update: func(lane reconcile.Lane, _, node *corev1.Node) {
			if seconds, known := c.size.seconds(); !known || !shows(node, seconds) {
				c.queue.Enqueue(lane, node.Name)
			}
		},
		Delete: func(*corev1.Node) { c.size.removed() },
	})
}
