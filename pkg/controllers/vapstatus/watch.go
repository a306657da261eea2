package vapstatus

import (
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues every policy. Reconciling a policy decides whether its generation needs a check.
func (s *statusController) watch(policies cache.SharedIndexInformer) {
	watch.Objects(policies, watch.Funcs[*policy]{
		AddOrUpdate: s.enqueue,
	})
}

func (s *statusController) enqueue(lane reconcile.Lane, p *policy) { s.loop.Enqueue(lane, p.Name) }
