package vapstatus

import (
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues every policy. Reconciling a policy decides whether its generation needs a check.
func (s *statusController) watch(policies cache.SharedIndexInformer) {
	watch.Objects(policies, watch.Funcs[*policy]{
		Add:    s.enqueue,
		Update: func(lane reconcile.Lane, _, p *policy) { s.enqueue(lane, p) },
	})
}

func (s *statusController) enqueue(lane reconcile.Lane, p *policy) { s.loop.Enqueue(lane, p.Name) }
