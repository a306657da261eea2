package cloud

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"

	"kcmd.dev/test/controllertest"
)

// The library keeps what it lists, so it has to be the same as long as it would read the same, and to differ otherwise.
// Pins SLB-34.
func TestHostsChangeWithWhatTheLibraryReads(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*corev1.Node)
		another bool
	}{
		"nothing":     {func(*corev1.Node) {}, false},
		"heartbeat":   {func(n *corev1.Node) { n.Status.Phase = "next" }, false},
		"provider ID": {func(n *corev1.Node) { n.Spec.ProviderID = "fake://2" }, true},
		"label":       {func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} }, true},
		"taint": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
		}, true},
		"deletion":   {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch} }, true},
		"recreation": {func(n *corev1.Node) { n.UID = "2" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := nodeOf("a", "1")
			before.ResourceVersion, before.Spec.ProviderID = "1", "fake://1"
			env := controllertest.New(t)
			env.Cache(t, before, nodeOf("gone", "3"))
			session := newSession(t, env)
			lister := session.Hosts().Lister()
			list := func() []*corev1.Node {
				hosts, err := lister.List(labels.Everything())
				if err != nil {
					t.Fatal(err)
				}
				return hosts
			}
			host := func() *corev1.Node {
				hosts := list()
				return hosts[slices.IndexFunc(hosts, func(n *corev1.Node) bool { return n.Name == "a" })]
			}
			first := host()
			after := before.DeepCopy()
			after.ResourceVersion = "2"
			test.change(after)
			env.Cache(t, after)
			env.Uncache(t, nodeOf("gone", "3"))
			session.guard.hosts.miss(nodeOf("gone", "3"))
			session.guard.hosts.record("gone", nil)
			second := host()
			if (first != second) != test.another {
				t.Errorf("the host is another one: %v", first != second)
			}
			if !isHost(second, after) || len(list()) != 1 || host() != second {
				t.Errorf("the hosts are %v", list())
			}
		})
	}
}

// taking is a provider that keeps the nodes of its load balancer.
type taking struct {
	fake.Cloud
	nodes []*corev1.Node
}

func (b *taking) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return b, true }

func (b *taking) EnsureLoadBalancer(
	_ context.Context, _ string, _ *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	b.nodes = nodes
	return nil, nil
}

func (b *taking) UpdateLoadBalancer(_ context.Context, _ string, _ *corev1.Service, nodes []*corev1.Node) error {
	b.nodes = nodes
	return nil
}

// Pins SLB-34.
func TestTheProviderGetsWholeNodes(t *testing.T) {
	node := nodeOf("a", "1")
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	hosts := []*corev1.Node{hostOf(node), hostOf(nodeOf("gone", "2"))}
	for name, call := range map[string]func(cloudprovider.LoadBalancer) error{
		"ensured": func(b cloudprovider.LoadBalancer) error {
			_, err := b.EnsureLoadBalancer(t.Context(), "", &corev1.Service{}, hosts)
			return err
		},
		"updated": func(b cloudprovider.LoadBalancer) error {
			return b.UpdateLoadBalancer(t.Context(), "", &corev1.Service{}, hosts)
		},
	} {
		t.Run(name, func(t *testing.T) {
			env, w, provider := controllertest.New(t), newWorld(t), &taking{}
			env.Cache(t, node)
			w.nodes = env.Informers.Core().V1().Nodes().Lister()
			w.hosts = newHosts(w.nodes, env.Client.CoreV1().Nodes(), env.Clock)
			balancer, _ := guarded{provider, w.guard}.LoadBalancer()
			if err := call(balancer); err != nil {
				t.Fatal(err)
			}
			if got := provider.nodes; len(got) != 1 || len(got[0].Status.Addresses) != 1 {
				t.Errorf("it got %v", got)
			}
		})
	}
}
