package noderoute

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/node/util"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/simulation"
	"kcmd.dev/test/simulation/clouds"
)

// model is a world with nodes and the routes of a cloud.
type model struct {
	*simulation.World
	t      *testing.T
	cloud  *clouds.Cloud
	ranges int
	routed map[types.UID]bool // nodes that have a route
}

// TestWhateverHappensEachNodeHasItsRouteInTheEnd has nodes come, go and come again, calls of the cloud fail or take
// long, and the controller restarted, while the caches are behind. No node loses its route, and in the end there is one
// for each, no other, and the conditions say so.
func TestWhateverHappensEachNodeHasItsRouteInTheEnd(t *testing.T) {
	simulation.RunInBubbles(t, 40, func(t *testing.T, w *simulation.World) {
		watches := w.OneIn(2)
		cfg := configWith(func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.FeatureGates = map[string]bool{gates.CloudWatchBasedRoutes: watches}
		})
		made := func(env controller.Env) (controller.Controller, error) { return newController(env, cfg) }
		cloud := clouds.New(t, w, []string{"CreateRoute", "DeleteRoute", "ListRoutes", ""}, made)
		(&model{World: w, t: t, cloud: cloud, routed: map[types.UID]bool{}}).run()
	})
}

func (m *model) run() {
	m.nodes()
	m.MayComeLate = simulation.AnyWrite
	m.cloud.Live(m.others, m.nodes, 6, 10*time.Second)
	m.check()
	m.cloud.Stop()
}

func (m *model) others() {
	if m.OneIn(3) {
		m.nodes()
	} else {
		m.cloud.Meddle()
	}
	m.observe()
}

// nodes has a node come, get its range, or go.
func (m *model) nodes() {
	name := fmt.Sprint("n", m.Rand.IntN(4))
	node, ok := simulation.Get[*corev1.Node](m.World, "", name)
	switch {
	case !ok:
		m.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	case len(node.Spec.PodCIDRs) == 0:
		m.ranges++
		m.Note("node %s: range %d", name, m.ranges)
		simulation.Change(m.World, node, func(n *corev1.Node) {
			n.Spec.PodCIDRs = []string{fmt.Sprintf("10.244.%d.0/24", m.ranges), fmt.Sprintf("fd00::%x:0/112", m.ranges)}[:1+m.ranges%2]
		})
	case m.OneIn(3):
		m.Delete(node, nil)
	default:
		m.Note("node %s: address", name)
		simulation.Change(m.World, node, func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("10.0.0.", m.Rand.IntN(9))}}
		})
	}
}

func (m *model) hasRoutes(node *corev1.Node) bool {
	routes := m.cloud.Routes(node.Name)
	return !slices.ContainsFunc(node.Spec.PodCIDRs, func(cidr string) bool { return !slices.Contains(routes, cidr) })
}

// observe checks that no node has lost its routes.
func (m *model) observe() {
	for _, node := range simulation.All[*corev1.Node](m.World) {
		if len(node.Spec.PodCIDRs) == 0 {
			continue
		}
		if m.routed[node.UID] && !m.hasRoutes(node) {
			m.t.Errorf("%s has lost its routes", node.Name)
		}
		m.routed[node.UID] = m.hasRoutes(node)
	}
}

func (m *model) check() {
	m.observe()
	var want []string
	for _, node := range simulation.All[*corev1.Node](m.World) {
		for _, cidr := range node.Spec.PodCIDRs {
			want = append(want, fmt.Sprintf("route to %s: %s", node.Name, cidr))
		}
		_, c := util.GetNodeCondition(&node.Status, corev1.NodeNetworkUnavailable)
		if len(node.Spec.PodCIDRs) > 0 && (c == nil || c.Status != corev1.ConditionFalse || c.Reason != "RouteCreated") {
			m.t.Errorf("the condition of %s is %+v", node.Name, c)
		}
	}
	slices.Sort(want)
	if got := m.cloud.Contents(); !slices.Equal(got, want) {
		m.t.Errorf("the cloud has %v, want %v", got, want)
	}
}
