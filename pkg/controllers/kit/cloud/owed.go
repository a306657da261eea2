package cloud

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
)

// The library deletes the load balancer of a Service that does not want it any more, as often as that has to be tried,
// but only as long as there is the Service. The finalizer keeps it until then, unless somebody takes that away. A
// Service that is gone before its load balancer is therefore passed to the library in its last state, until the provider
// has deleted the load balancer, or has none.
//
// The library forgets with the instance what is still to be deleted. An edit that repairs the access to the cloud would
// thus leave load balancers there for good. So the Services that may have one are handed over, and those of them that
// are gone by then are passed on in the same way.

// wants reports whether a Service is to have a load balancer by the library.
func wants(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil
}

// departed is the last state of a Service that is gone, as one that wants no load balancer, and of which nothing is left
// to be written.
func departed(service *corev1.Service) *corev1.Service {
	service = service.DeepCopy()
	if wants(service) {
		service.Spec.Type = corev1.ServiceTypeClusterIP
	}
	service.DeletionTimestamp, service.Status = nil, corev1.ServiceStatus{}
	service.Finalizers = slices.DeleteFunc(service.Finalizers, func(f string) bool {
		return f == servicehelpers.LoadBalancerCleanupFinalizer
	})
	return service
}

// Left is what an instance leaves to the next one: the Services that may have a load balancer, in the last state that
// the library has worked on, and the nodes behind load balancers.
type Left struct {
	services []*corev1.Service
	hosts    map[string]leftHost
}

// Leave returns what the next instance is to Inherit.
func (s *Session) Leave() Left {
	p := &s.guard.processed
	p.mu.Lock()
	services := slices.Collect(maps.Values(p.balanced))
	p.mu.Unlock()
	return Left{services, s.guard.hosts.leave()}
}

// Inherit has the load balancers deleted of those Services of a former instance that are gone, or do not want them any
// more, and keeps nodes that the cache lacks behind the others. It is for use after Services and Hosts, and after the
// library was made.
func (s *Session) Inherit(left Left) {
	s.guard.hosts.inherit(left.hosts)
	for _, service := range left.services {
		s.guard.processed.balances(service)
		is, err := s.guard.services.Services(service.Namespace).Get(service.Name)
		switch remains := err == nil && is.UID == service.UID && !isLeaving(is); {
		case remains && wants(is):
			continue // it is queued anyway
		case !remains:
			s.guard.processed.inherit(service)
		}
		s.guard.backends.queue(asWanted(service))
	}
}

// balances records that a Service may have a load balancer.
func (p *processed) balances(service *corev1.Service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.balanced == nil {
		p.balanced = map[types.UID]*corev1.Service{}
	}
	p.balanced[service.UID] = service
}

// balancesNone records that a Service has no load balancer.
func (p *processed) balancesNone(service *corev1.Service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.balanced, service.UID)
}

// inherit records that the load balancer of a Service is to be deleted, unless the Service exists.
func (p *processed) inherit(service *corev1.Service) {
	p.know(service)
	p.change(keyOf(service), func(w *written) { w.owed = service })
}

// isOwedBy reports whether the load balancer of a Service is to be deleted if it is gone, which another one that has its
// name by the cache does not prove.
func (p *processed) isOwedBy(other *corev1.Service) bool {
	w, _ := p.of(keyOf(other))
	return w.owed != nil && w.owed.UID != other.UID
}

// owe records that the library is about to delete the load balancer of a Service, if that does not want one.
func (p *processed) owe(service *corev1.Service) {
	if !wants(service) {
		p.balances(service)
	}
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
	p.balancesNone(service)
	p.change(keyOf(service), func(w *written) {
		if w.owed != nil && w.owed.UID == service.UID && !wants(service) {
			gone, w.owed, w.gone = w.gone, nil, false
		}
	})
	return gone
}
