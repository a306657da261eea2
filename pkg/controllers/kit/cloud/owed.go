package cloud

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
)

// The library deletes the load balancer of a Service that does not want it any more, as often as that has to be tried,
// but only as long as there is the Service. The finalizer keeps it until then, unless somebody takes that away. A
// Service that is gone before its load balancer is therefore passed to the library in its last state, until the provider
// has deleted the load balancer, or has none.

// wants reports whether a Service is to have a load balancer by the library.
func wants(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil
}

// departed is the last state of a Service that is gone, as one of which nothing is left to be written.
func departed(service *corev1.Service) *corev1.Service {
	service = service.DeepCopy()
	service.DeletionTimestamp, service.Status = nil, corev1.ServiceStatus{}
	service.Finalizers = slices.DeleteFunc(service.Finalizers, func(f string) bool {
		return f == servicehelpers.LoadBalancerCleanupFinalizer
	})
	return service
}

// owe records that the library is about to delete the load balancer of a Service, if that does not want one.
func (p *processed) owe(service *corev1.Service) {
	p.change(keyOf(service), func(w *written) {
		if wants(service) {
			w.owed = nil
		} else {
			w.owed = service
		}
	})
}

// owes returns the Service of a key whose load balancer is still to be deleted though it is gone, nil if there is none.
// is is the Service that there is now, nil if there is none.
func (p *processed) owes(key string, is *corev1.Service) (owed *corev1.Service) {
	p.change(key, func(w *written) {
		if w.owed != nil && (is == nil || is.UID != w.owed.UID) {
			w.gone, owed = true, departed(w.owed)
		}
	})
	return owed
}

// pay records that a Service has no load balancer any more. It reports whether the Service is gone, so that the key has
// to be processed again for what has its name now.
func (p *processed) pay(service *corev1.Service) (gone bool) {
	p.change(keyOf(service), func(w *written) {
		if w.owed != nil && w.owed.UID == service.UID && !wants(service) {
			gone, w.owed, w.gone = w.gone, nil, false
		}
	})
	return gone
}
