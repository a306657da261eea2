package namespace

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues namespaces that are being deleted. There is no lane to choose, since all of
// them are delayed.
func (c *namespaceController) watch(namespaces cache.SharedIndexInformer) {
	watch.Objects(namespaces, watch.Funcs[*corev1.Namespace]{
		Add:    func(_ reconcile.Lane, ns *corev1.Namespace) { c.observe(ns) },
		Update: func(_ reconcile.Lane, _, ns *corev1.Namespace) { c.observe(ns) },
		Delete: func(ns *corev1.Namespace) { c.memory.forget(ns.Name) },
	})
}

// settleTime is how long a namespace waits after an event before it is swept.
const settleTime = 5 * time.Second

func (c *namespaceController) observe(ns *corev1.Namespace) {
	if ns.DeletionTimestamp == nil {
		return
	}
	c.memory.observe(ns, c.Clock.Now())
	c.loop.AddAfter(ns.Name, settleTime)
}
