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
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/utils/clock"
)

// Hosts are the nodes of the scope, for a controller of load balancers. For each Service, even after its deletion, the
// library keeps the list of nodes that it last passed to the provider, and with it former states of all nodes. To save
// that memory, it gets nodes reduced to the fields it compares, and the same one until such a field changes. The
// provider gets complete nodes, see whole. The parts of the controller have to include ConfirmHosts.
func (s *Session) Hosts() coreinformers.NodeInformer {
	shared := s.Informers.Core().V1().Nodes()
	h := newHosts(shared.Lister(), s.Client.CoreV1().Nodes(), s.Clock)
	s.guard.hosts = h
	return hostInformer{nodeInformer{shared, h}, h}
}

type hostInformer struct {
	nodeInformer
	hosts *hosts
}

// Informer implements coreinformers.NodeInformer.
func (h hostInformer) Informer() cache.SharedIndexInformer {
	return watched{h.NodeInformer.Informer(), func(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
		h.hosts.library = handler
		return hostHandler{handler, h.hosts}
	}}
}

// hosts are the nodes that the cache shows, and those that it has shown to the library and that are not known to be
// gone: a cache may lack nodes that exist, and every load balancer would lose them. See missing.go for the latter.
type hosts struct {
	corelisters.NodeLister // of the cache
	live                   typedcorev1.NodeInterface
	clock                  clock.Clock
	// library is the handler of the library, which lists the nodes again after an event.
	library cache.ResourceEventHandler
	// due has an entry when there are nodes to be confirmed.
	due chan struct{}

	mu sync.Mutex
	// known are the hosts by name.
	known map[string]host
	// missing are those of the known ones of whose deletion there was an event, by name.
	missing map[string]missing
}

// host is what the library gets of a node, and the version of the node that it was compared with last.
type host struct {
	*corev1.Node
	version string
}

func newHosts(cached corelisters.NodeLister, live typedcorev1.NodeInterface, clk clock.Clock) *hosts {
	return &hosts{
		NodeLister: cached, live: live, clock: clk, due: make(chan struct{}, 1),
		known: map[string]host{}, missing: map[string]missing{},
	}
}

// List implements corelisters.NodeLister. The library lists all nodes for each Service whenever a node comes or goes.
func (h *hosts) List(selector labels.Selector) ([]*corev1.Node, error) {
	h.mu.Lock() // before the nodes are listed: hosts may not be newer than they
	defer h.mu.Unlock()
	shown, err := h.NodeLister.List(selector)
	if err != nil {
		return nil, err
	}
	listed := make([]*corev1.Node, 0, len(shown))
	for _, node := range shown {
		listed = append(listed, h.hostFor(node))
	}
	if len(h.known) == len(listed) {
		return listed, nil
	}
	names := make(map[string]bool, len(shown))
	for _, node := range shown {
		names[node.Name] = true
	}
	for name, host := range h.known {
		switch {
		case names[name]:
		case serves(host.Node): // until it is known to be gone
			listed = append(listed, host.Node)
		default:
			h.forget(name)
		}
	}
	return listed, nil
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
func (h *hosts) hostFor(node *corev1.Node) *corev1.Node {
	is, known := h.known[node.Name]
	if known && is.UID == node.UID && is.version == node.ResourceVersion && is.version != "" {
		return is.Node
	}
	if !known || !isHost(is.Node, node) {
		is.Node = hostOf(node)
	}
	is.version = node.ResourceVersion
	h.known[node.Name] = is
	return is.Node
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

// whole returns the nodes of hosts, by name. One that is known to be gone by now is left out: its deletion makes the
// library update the load balancer.
func (h *hosts) whole(reduced []*corev1.Node) ([]*corev1.Node, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	nodes := make([]*corev1.Node, 0, len(reduced))
	for _, host := range reduced {
		node, err := h.Get(host.Name)
		if err == nil {
			h.hostFor(node) // which may be another one than when the hosts were listed
		} else if node, err = h.lastSeen(host.Name); err != nil {
			return nil, err
		}
		if node != nil {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// lastSeen returns a node that the cache lacks, as it was last seen, nil if it is gone.
func (h *hosts) lastSeen(name string) (*corev1.Node, error) {
	node := h.missing[name].node
	if host, known := h.known[name]; known && node == nil && serves(host.Node) {
		return nil, api.NewRetryError("waiting for the last state of node "+name+", which the cache no longer shows", recheck)
	}
	return node, nil
}
