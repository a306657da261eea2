package cloud

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/cloud-provider/controllers/service"
)

// Hosts are the nodes of the scope, for a controller of load balancers. For each Service, even after its deletion, the
// library keeps the list of nodes that it last passed to the provider, and with it former states of all nodes. To save
// that memory, it gets nodes reduced to the fields it compares, and the same one until such a field changes. The
// provider gets complete nodes, see guard.whole. A node that the cache no longer shows is left out only if it is gone,
// see unshown. The parts of the controller have to include RecheckHosts.
func (s *Session) Hosts() coreinformers.NodeInformer {
	shared := s.Informers.Core().V1().Nodes()
	s.guard.unshown = newUnshown(s)
	lister := &hostLister{NodeLister: shared.Lister(), hosts: map[string]host{}, unshown: s.guard.unshown}
	return hostInformer{nodeInformer{shared, lister}, s.guard.unshown}
}

type hostInformer struct {
	nodeInformer
	unshown *unshown
}

// Informer implements coreinformers.NodeInformer.
func (h hostInformer) Informer() cache.SharedIndexInformer {
	return watched{h.NodeInformer.Informer(), func(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
		h.unshown.again.Store(&handler)
		return handler
	}}
}

type hostLister struct {
	corelisters.NodeLister
	unshown *unshown

	mu    sync.Mutex
	hosts map[string]host // by name of the node
}

// host is what the library gets of a node, and the version of the node that it was compared with last.
type host struct {
	*corev1.Node
	version string
}

// List implements corelisters.NodeLister. The library lists all nodes for each Service whenever a node comes or goes.
// An error has it repeat that later.
func (l *hostLister) List(selector labels.Selector) ([]*corev1.Node, error) {
	l.mu.Lock() // before the nodes are listed: hosts may not be newer than they
	defer l.mu.Unlock()
	all, err := l.NodeLister.List(selector)
	if err != nil {
		return nil, err
	}
	listed := make([]*corev1.Node, 0, len(all))
	for _, node := range all {
		listed = append(listed, l.hostFor(node))
	}
	if len(l.hosts) == len(all) {
		l.unshown.shown()
		return listed, nil
	}
	found, err := l.unshown.find(l.missing(all))
	if err != nil {
		return nil, err
	}
	for _, node := range found {
		listed = append(listed, l.hostFor(node))
	}
	l.forgetOthers(listed)
	return listed, nil
}

// missing returns the names of the hosts that nodes lack, and that load balancers would lose therefore.
func (l *hostLister) missing(nodes []*corev1.Node) []string {
	shown := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		shown[node.Name] = true
	}
	var names []string
	for name, host := range l.hosts {
		if !shown[name] && serves(host.Node) {
			names = append(names, name)
		}
	}
	return names
}

// serves reports whether the library puts a node behind load balancers.
func serves(node *corev1.Node) bool {
	if value, labelled := node.Labels[corev1.LabelNodeExcludeBalancers]; labelled {
		if excluded, err := strconv.ParseBool(value); err != nil || excluded {
			return false
		}
	}
	isTainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == service.ToBeDeletedTaint })
	return node.DeletionTimestamp == nil && !isTainted
}

// hostFor returns the host for a node, which is another one only if the library would read something else.
func (l *hostLister) hostFor(node *corev1.Node) *corev1.Node {
	is, known := l.hosts[node.Name]
	if known && is.UID == node.UID && is.version == node.ResourceVersion && is.version != "" {
		return is.Node
	}
	if !known || !isHost(is.Node, node) {
		is.Node = hostOf(node)
	}
	is.version = node.ResourceVersion
	l.hosts[node.Name] = is
	return is.Node
}

// forgetOthers forgets the hosts of nodes that are gone.
func (l *hostLister) forgetOthers(nodes []*corev1.Node) {
	current := make(map[string]host, len(nodes))
	for _, node := range nodes {
		current[node.Name] = l.hosts[node.Name]
	}
	l.hosts = current
}

// hostOf is what the library reads of a node that it lists.
func hostOf(node *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, DeletionTimestamp: node.DeletionTimestamp, Labels: node.Labels,
		},
		Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID, Taints: node.Spec.Taints},
	}
}

// isHost reports whether the library would read the same of a node as of a host.
func isHost(host, node *corev1.Node) bool {
	return host.UID == node.UID && host.DeletionTimestamp.Equal(node.DeletionTimestamp) &&
		maps.Equal(host.Labels, node.Labels) && host.Spec.ProviderID == node.Spec.ProviderID &&
		equality.Semantic.DeepEqual(host.Spec.Taints, node.Spec.Taints)
}

// whole returns the nodes of hosts, by name. One that is gone by now is left out: its deletion makes the library update
// the load balancer.
func (g *guard) whole(hosts []*corev1.Node) ([]*corev1.Node, error) {
	var nodes []*corev1.Node
	var missing []string
	for _, host := range hosts {
		if node, err := g.nodes.Get(host.Name); err == nil {
			nodes = append(nodes, node)
		} else {
			missing = append(missing, host.Name)
		}
	}
	if len(missing) == 0 {
		return nodes, nil
	}
	found, err := g.unshown.find(missing)
	return append(nodes, found...), err
}
