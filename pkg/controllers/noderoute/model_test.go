package noderoute

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/node/util"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with nodes and the routes of a cloud.
type model struct {
	*simulation.World
	t      *testing.T
	cloud  *fakecloud.Cloud
	config config
	hold   *fakecloud.Hold // the calls that are held, nil for none
	runs   *simulation.Running
	ranges int
	routed map[types.UID]bool // nodes that have a route
}

var errCloud = errors.New("the cloud is out of order")

// TestWhateverHappensEachNodeHasItsRouteInTheEnd has nodes come, go and come again, calls of the cloud fail or take
// long, and the controller restarted, while the caches are behind. No node loses its route, and in the end there is one
// for each, no other, and the conditions say so.
func TestWhateverHappensEachNodeHasItsRouteInTheEnd(t *testing.T) {
	simulation.RunInBubbles(t, 40, func(t *testing.T, w *simulation.World) {
		watches := w.OneIn(2)
		cfg := configWith(func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.FeatureGates = map[string]bool{gates.CloudWatchBasedRoutes: watches}
		})
		(&model{World: w, t: t, cloud: fakecloud.The(), config: cfg, routed: map[types.UID]bool{}}).run()
	})
}

func (m *model) run() {
	m.cloud.Reset()
	m.cloud.Disturb(m.trouble)
	m.Start = m.start
	m.Lossy = func(runtime.Object) bool { return m.OneIn(2) }
	m.nodes()
	m.Begin()
	m.Play(m.others, m.nodes)
	m.Faulty = false
	m.Settle(0, nil)
	m.release()
	for range 6 {
		m.Pass(10 * time.Second)
		m.Drain()
	}
	m.check()
	m.runs.Stop()
}

func (m *model) start(env controller.Env, _ any) simulation.Instance {
	if m.runs != nil && m.OneIn(2) {
		m.runs.Kill()
	} else if m.runs != nil {
		m.release()
		m.runs.Stop()
	}
	m.runs = simulation.RunFree(m.World, env, func(env controller.Env) controller.Controller {
		return must.Get(newController(env, m.config))(m.t)
	})
	return simulation.Instance{}
}

// trouble is what becomes of a call of the cloud. Like the API server, it answers one at a time.
func (m *model) trouble(what string) (refused, lost error) {
	m.Fake.Lock()
	defer m.Fake.Unlock()
	if m.Faulty {
		switch m.Rand.IntN(8) {
		case 0:
			refused = errCloud
		case 1:
			lost = errCloud
		}
	}
	m.Note("cloud: %s -> %v, %v", what, refused, lost)
	return refused, lost
}

func (m *model) release() {
	if m.hold != nil {
		m.hold.Release()
		m.hold = nil
		m.Pass(0)
	}
}

func (m *model) others() {
	switch m.Rand.IntN(3) {
	case 0:
		m.nodes()
	case 1:
		if m.hold == nil {
			m.hold = m.cloud.Hold([]string{"CreateRoute", "DeleteRoute", "ListRoutes", ""}[m.Rand.IntN(4)])
		}
	case 2:
		m.release()
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
