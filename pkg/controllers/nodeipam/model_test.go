package nodeipam

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with more nodes than there are ranges for, now and then.
type model struct {
	*simulation.World
	t *testing.T
	c *ipamController
	// configs are those that an instance has one of; more than one if the ranges are edited.
	configs []config
	// reserved is how many blocks are reserved for Services.
	reserved int
	// knowsNothing is set while an instance starts to which nothing is handed over. All that it knows of the blocks that
	// nodes hold is its first list.
	knowsNothing bool
}

// edited are what the ranges are edited to.
var edited = []config{
	single, dual,
	{clusters: [2]clusterRange{{"10.0.0.0/22", 24}}, services: [2]string{"10.0.1.0/24"}},
	{clusters: [2]clusterRange{{"10.0.0.0/22", 25}}},
	{clusters: [2]clusterRange{{"10.0.2.0/23", 24}, {"fd00::/63", 65}}},
	{clusters: [2]clusterRange{{"fd00::/63", 64}, {"10.0.0.0/23", 24}}},
}

// TestWhateverHappensNoRangeIsGivenToTwoNodes has nodes come and go, by the same names, be held by finalizers and missing
// in lists, the ranges edited, requests fail and the controller restarted, while the cache is behind. In the end each
// node has its ranges, as long as there are some.
func TestWhateverHappensNoRangeIsGivenToTwoNodes(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) { (&model{World: w, t: t}).run() })
}

func (m *model) run() {
	m.configs = [][]config{{single}, {dual}, edited}[m.Rand.IntN(3)]
	m.Start, m.Validate = m.start, m.validate
	if m.OneIn(2) {
		m.Lossy = func(runtime.Object) bool { return !m.knowsNothing }
	}
	for range 2 {
		m.user()
	}
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 0, 5}[m.Rand.IntN(3)]
	m.Play(func() { simulation.Release[*corev1.Node](m.World, false) }, func() { m.user(); m.user() })
	m.Settle(2*time.Minute, func() bool { return simulation.Release[*corev1.Node](m.World, true) })
	if len(m.configs) > 1 {
		m.checkEdited()
	} else {
		m.check()
	}
	for _, node := range simulation.All[*corev1.Node](m.World) {
		m.Delete(node, nil)
	}
	m.Settle(2*time.Minute, func() bool { return simulation.Release[*corev1.Node](m.World, true) })
	for _, set := range m.c.ranges.sets {
		if set.used > m.reserved || len(m.c.ranges.holdings) > 0 {
			m.t.Errorf("%d blocks of %s are held by nobody: %v", set.used, set.cluster, m.c.ranges.holdings)
		}
	}
}

func (m *model) start(env controller.Env, left any) simulation.Instance {
	if left == nil {
		m.DropLate() // see IPAM-39: nobody knows of the blocks that an instance which was killed has sent
	}
	m.knowsNothing = left == nil
	cfg := m.configs[m.Rand.IntN(len(m.configs))]
	if m.reserved = 0; cfg.services[0] != "" {
		m.reserved = 1
	}
	m.Note("the ranges are %v", cfg)
	c := must.Get(newController(env, cfg))(m.t)
	m.knowsNothing = false
	queue := simulation.NewQueue(m.World, c.reconcile)
	c.queue, c.ranges.retry = queue, queue.Add
	m.SyncHandlers()
	c.takeOver()
	m.c = c
	return simulation.Instance{Runners: []simulation.Runner{queue}, HandOver: func() any { return c.HandOver() }}
}

// user creates a node or deletes one, and now and then one is held by a finalizer.
func (m *model) user() {
	name := fmt.Sprint("n", m.Rand.IntN(6))
	node, ok := simulation.Get[*corev1.Node](m.World, "", name)
	switch {
	case !ok:
		created := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if m.OneIn(4) {
			created.Finalizers = []string{"example.com/hold"}
		}
		m.Create(created)
	case node.DeletionTimestamp == nil && m.OneIn(2):
		m.Delete(node, nil)
	default:
		simulation.Change(m.World, node, func(n *corev1.Node) { n.Labels = map[string]string{"n": fmt.Sprint(m.Rand.IntN(9))} })
	}
}

// validate checks what is written to a node.
func (m *model) validate(old, changed runtime.Object) error {
	was, is := old.(*corev1.Node), changed.(*corev1.Node)
	if len(was.Spec.PodCIDRs) > 0 && fmt.Sprint(was.Spec.PodCIDRs) != fmt.Sprint(is.Spec.PodCIDRs) {
		return apierrors.NewForbidden(corev1.Resource("nodes"), is.Name, fmt.Errorf("podCIDRs are not empty"))
	}
	for _, other := range simulation.All[*corev1.Node](m.World) {
		for _, theirs := range other.Spec.PodCIDRs {
			for _, cidr := range is.Spec.PodCIDRs {
				if other.UID != is.UID && netip.MustParsePrefix(theirs).Overlaps(netip.MustParsePrefix(cidr)) {
					m.t.Errorf("%s gets %s, which overlaps %s of %s", is.Name, cidr, theirs, other.Name)
				}
			}
		}
	}
	return nil
}

// checkEdited checks that no node lacks ranges while there are some. Nodes have what they were given when the ranges were
// others.
func (m *model) checkEdited() {
	for _, node := range simulation.All[*corev1.Node](m.World) {
		if len(node.Spec.PodCIDRs) == 0 && m.c.ranges.firstFull() < 0 {
			m.t.Errorf("node %s has no ranges, though there are some", node.Name)
		}
	}
}

// check checks that as many nodes as possible have ranges.
func (m *model) check() {
	most := 1 << 30
	for _, set := range m.c.ranges.sets {
		most = min(most, set.size)
	}
	nodes, with := simulation.All[*corev1.Node](m.World), 0
	for _, node := range nodes {
		if n := len(node.Spec.PodCIDRs); n == len(m.c.ranges.sets) {
			with++
		} else if n > 0 {
			m.t.Errorf("node %s has %v", node.Name, node.Spec.PodCIDRs)
		}
	}
	if with != min(len(nodes), most) {
		m.t.Errorf("%d of %d nodes have ranges, of which there are %d", with, len(nodes), most)
	}
}
