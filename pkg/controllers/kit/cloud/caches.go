package cloud

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Services are the Services of the scope. The library reads one where its work on a key begins.
func (s *Session) Services() coreinformers.ServiceInformer {
	shared := s.Informers.Core().V1().Services()
	return serviceInformer{shared, serviceLister{shared.Lister(), s.guard}}
}

type serviceInformer struct {
	coreinformers.ServiceInformer
	lister corelisters.ServiceLister
}

// Lister implements coreinformers.ServiceInformer.
func (s serviceInformer) Lister() corelisters.ServiceLister { return s.lister }

type serviceLister struct {
	corelisters.ServiceLister
	guard *guard
}

// Services implements corelisters.ServiceLister.
func (s serviceLister) Services(namespace string) corelisters.ServiceNamespaceLister {
	return servicesOf{s.ServiceLister.Services(namespace), s.guard}
}

type servicesOf struct {
	corelisters.ServiceNamespaceLister
	guard *guard
}

// Get implements corelisters.ServiceNamespaceLister.
func (s servicesOf) Get(name string) (*corev1.Service, error) {
	s.guard.first()
	return s.ServiceNamespaceLister.Get(name)
}

// NodesInRounds are the nodes of the scope, for a controller that lists them once a round. That
// it lists them is passed to list, which returns what it gets. The library reads one where its work
// on a key begins, and before it writes to the node.
func (s *Session) NodesInRounds(list func([]*corev1.Node) []*corev1.Node) coreinformers.NodeInformer {
	shared := s.Informers.Core().V1().Nodes()
	return nodeInformer{shared, nodeLister{shared.Lister(), s.guard, list}}
}

// Judged records the nodes of a round, so that none is deleted but those.
func (s *Session) Judged(round []*corev1.Node) []*corev1.Node {
	if c, ok := s.Client.(*client); ok {
		c.core.judged.nodes.Store(&round)
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
	return n.NodeLister.Get(name)
}

// List implements corelisters.NodeLister.
func (n nodeLister) List(selector labels.Selector) ([]*corev1.Node, error) {
	all, err := n.NodeLister.List(selector)
	if err != nil {
		return nil, err
	}
	return n.list(all), nil
}
