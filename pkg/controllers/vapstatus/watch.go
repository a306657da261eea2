package vapstatus

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues every policy. Reconciling a policy decides whether its generation needs a check.
func (s *statusController) watch(policies cache.SharedIndexInformer) {
	watch.Objects(policies, watch.Funcs[*admissionregistrationv1.ValidatingAdmissionPolicy]{
		Add: s.enqueue,
		Update: func(lane reconcile.Lane, _, policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
			s.enqueue(lane, policy)
		},
	})
}

func (s *statusController) enqueue(lane reconcile.Lane, policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
	s.loop.Enqueue(lane, policy.Name)
}
