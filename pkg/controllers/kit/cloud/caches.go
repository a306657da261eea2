package cloud

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"kcmd.dev/pkg/controller"
)

// Services are the Services of the scope. The library reads one where its work on a key begins, and takes NotFound to
// mean that it is gone: it deletes the load balancer that it has made. It is made to process each Service that is
// deleted or loses the finalizer, too: by itself it relies on the finalizer to announce every deletion. See owed.go for
// one that did not want a load balancer any more before it was deleted.
func (s *Session) Services() coreinformers.ServiceInformer {
	shared := s.Informers.Core().V1().Services()
	s.guard.services = shared.Lister()
	return serviceInformer{shared, serviceLister{shared.Lister(), s.guard, s.Client.CoreV1(), s.Pauses}, s.guard}
}

type serviceInformer struct {
	coreinformers.ServiceInformer
	lister corelisters.ServiceLister
	guard  *guard
}

// Lister implements coreinformers.ServiceInformer.
func (s serviceInformer) Lister() corelisters.ServiceLister { return s.lister }

// Informer implements coreinformers.ServiceInformer.
func (s serviceInformer) Informer() cache.SharedIndexInformer {
	return watched{s.ServiceInformer.Informer(), func(h cache.ResourceEventHandler) cache.ResourceEventHandler {
		s.guard.backends.again.Store(&h)
		return serviceHandler{h, &s.guard.processed}
	}}
}

// watched is an informer that gets, in place of the handler of the library, what wrap makes of it.
type watched struct {
	cache.SharedIndexInformer
	wrap func(cache.ResourceEventHandler) cache.ResourceEventHandler
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (w watched) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return w.SharedIndexInformer.AddEventHandlerWithResyncPeriod(w.wrap(h), period)
}

// serviceHandler wraps the handler of the library, which queues an added Service that wants a load balancer, but no
// deleted one: a Service that is deleted, or loses the finalizer or its address, is passed to it as added.
type serviceHandler struct {
	cache.ResourceEventHandler
	processed *processed
}

// OnUpdate implements cache.ResourceEventHandler.
func (h serviceHandler) OnUpdate(old, new any) {
	h.ResourceEventHandler.OnUpdate(old, new)
	was, okOld := old.(*corev1.Service)
	is, okNew := new.(*corev1.Service)
	if okOld && okNew && h.processed.hasLost(was, is) {
		h.OnAdd(is, false)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h serviceHandler) OnDelete(obj any) {
	h.ResourceEventHandler.OnDelete(obj)
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if service, ok := obj.(*corev1.Service); ok {
		obj = h.wanted(service)
	}
	h.OnAdd(obj, false)
}

// wanted returns a Service that was deleted as one that wants a load balancer, if it was worked on: the library then
// looks for it, and what is remembered of it is forgotten.
func (h serviceHandler) wanted(service *corev1.Service) *corev1.Service {
	if _, known := h.processed.of(keyOf(service)); !known {
		return service
	}
	return asWanted(service)
}

// asWanted is a Service as one that wants a load balancer, which the library queues.
func asWanted(service *corev1.Service) *corev1.Service {
	service = service.DeepCopy()
	service.Spec.Type, service.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, nil
	return service
}

type serviceLister struct {
	corelisters.ServiceLister
	guard  *guard
	live   typedcorev1.ServicesGetter
	pauses *controller.Pauses
}

// Services implements corelisters.ServiceLister.
func (s serviceLister) Services(namespace string) corelisters.ServiceNamespaceLister {
	return servicesOf{s.ServiceLister.Services(namespace), s.guard, s.live.Services(namespace), s.pauses, namespace}
}

type servicesOf struct {
	corelisters.ServiceNamespaceLister
	guard     *guard
	live      typedcorev1.ServiceInterface
	pauses    *controller.Pauses
	namespace string
}

// Get implements corelisters.ServiceNamespaceLister. In a paused namespace nothing is begun: the library would ask the
// provider before it writes.
func (s servicesOf) Get(name string) (*corev1.Service, error) {
	s.guard.first()
	if s.pauses.Hold(s.namespace) {
		return nil, &controller.PausedError{Namespace: s.namespace}
	}
	service, err := s.current(name)
	if err != nil {
		return nil, err
	}
	key, processed := s.namespace+"/"+name, &s.guard.processed
	if owed := processed.owes(key, service); owed != nil {
		return owed, nil
	}
	if service == nil {
		processed.forget(key)
		return nil, apierrors.NewNotFound(corev1.Resource("services"), name)
	}
	if err := processed.begin(s.guard.working, s.live, service); err != nil {
		return nil, err
	}
	processed.owe(service)
	return processed.ours(service), nil
}

// current returns the Service of a name as the cache shows it, nil if it is gone, which only the API server can say. So
// it has to say that another one has taken the place of one whose load balancer is to be deleted then. One that is
// being deleted without the finalizer counts as gone, too: it cannot get the finalizer back, and its load balancer has
// to go.
func (s servicesOf) current(name string) (*corev1.Service, error) {
	service, err := s.ServiceNamespaceLister.Get(name)
	cached := err == nil
	if shown := service; apierrors.IsNotFound(err) || cached && s.guard.processed.isOwedBy(shown) {
		service, err = s.live.Get(s.guard.working, name, metav1.GetOptions{})
		if cached = cached && err == nil && service.UID == shown.UID; cached {
			service = shown
		}
	}
	switch {
	case controller.Absent(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		// Not wrapped: the library would conclude that the Service is gone.
		return nil, errors.New("reading Service " + name + ": " + err.Error())
	case err != nil:
		return nil, err
	case isLeaving(service):
		return nil, nil
	case !cached:
		return nil, fmt.Errorf("waiting for the cache to show Service %s/%s", service.Namespace, name)
	}
	return service, nil
}

// isLeaving reports whether a Service is being deleted without the finalizer.
func isLeaving(service *corev1.Service) bool {
	return service.DeletionTimestamp != nil && !servicehelpers.HasLBFinalizer(service)
}

// NodesInRounds are the nodes of the scope, for a controller that lists them once a round. Each list
// is passed to list, which returns what the controller gets. The library reads a node where its work
// on a key begins, and before it writes to the node.
func (s *Session) NodesInRounds(list func([]*corev1.Node) []*corev1.Node) coreinformers.NodeInformer {
	shared := s.Informers.Core().V1().Nodes()
	return nodeInformer{shared, nodeLister{shared.Lister(), s.guard, list}}
}

// Judged records the nodes of a round, so that none is deleted or tainted that is another one or has changed since.
func (s *Session) Judged(round []*corev1.Node) []*corev1.Node {
	if c, ok := s.Client.(*client); ok {
		c.core.judged.round.Store(&round)
	}
	return round
}

type nodeInformer struct {
	coreinformers.NodeInformer
	lister corelisters.NodeLister
}

// Lister implements coreinformers.NodeInformer.
func (n nodeInformer) Lister() corelisters.NodeLister { return n.lister }

type nodeLister struct {
	corelisters.NodeLister
	guard *guard
	list  func([]*corev1.Node) []*corev1.Node
}

// Get implements corelisters.NodeLister.
func (n nodeLister) Get(name string) (*corev1.Node, error) {
	n.guard.first()
	node, err := n.NodeLister.Get(name)
	switch {
	case err != nil:
		n.guard.asked.forget(name)
	case !initialized(node):
		n.guard.asked.firstAbout(node)
	}
	return node, err
}

// List implements corelisters.NodeLister.
func (n nodeLister) List(selector labels.Selector) ([]*corev1.Node, error) {
	all, err := n.NodeLister.List(selector)
	if err != nil {
		return nil, err
	}
	return n.list(all), nil
}
