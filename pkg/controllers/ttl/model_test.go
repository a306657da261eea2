package ttl

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world in which nodes come and go, in a cluster that is small for its intervals.
type model struct {
	*simulation.World
	t *testing.T
	// beats counts the reports of kubelets.
	beats int
	// writes counts the writes of the controller.
	writes int
}

// validate checks what the controller writes.
func (m *model) validate(old, new runtime.Object) error {
	m.writes++
	was, is := old.(*corev1.Node).DeepCopy(), new.(*corev1.Node).DeepCopy()
	seconds, err := shown(is)
	known := func(i interval) bool { return i.seconds == seconds }
	if err != nil || !slices.ContainsFunc(intervals[:], known) {
		m.t.Errorf("%s is annotated with %q", is.Name, is.Annotations[corev1.ObjectTTLAnnotationKey])
	}
	delete(was.Annotations, corev1.ObjectTTLAnnotationKey)
	delete(is.Annotations, corev1.ObjectTTLAnnotationKey)
	if !equality.Semantic.DeepEqual(was, is) {
		m.t.Errorf("more than the annotation of %s is changed", is.Name)
	}
	return nil
}

// beat has a kubelet report.
func (m *model) beat(node *corev1.Node) {
	m.beats++
	beat := metav1.NewTime(m.Clock.Now().Truncate(time.Second))
	simulation.Change(m.World, node, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, LastHeartbeatTime: beat, Message: fmt.Sprint(m.beats),
		}}
	})
}

// come has a node come, if it is not there.
func (m *model) come(name string) {
	if _, exists := simulation.Get[*corev1.Node](m.World, "", name); exists {
		return
	}
	n := node(name)
	if m.OneIn(3) { // as some tool copies it
		n = node(name, []string{"0", "15", "300", "soon"}[m.Rand.IntN(4)])
	}
	m.Create(n)
}

func (m *model) others() {
	name := fmt.Sprint("node", m.Rand.IntN(14))
	n, exists := simulation.Get[*corev1.Node](m.World, "", name)
	switch {
	case !exists:
		m.come(name)
	case m.OneIn(4):
		m.Delete(n, nil)
	default:
		m.beat(n)
	}
}

func (m *model) user() {
	all := simulation.All[*corev1.Node](m.World)
	if len(all) == 0 || m.OneIn(2) {
		for i := range 14 { // the cluster grows
			m.come(fmt.Sprint("node", i))
		}
		return
	}
	for _, n := range all {
		switch m.Rand.IntN(4) {
		case 0:
			m.Note("the annotation of %s is removed", n.Name)
			simulation.Change(m.World, n, func(n *corev1.Node) { delete(n.Annotations, corev1.ObjectTTLAnnotationKey) })
		case 1:
			m.Delete(n, nil)
		}
	}
}

// rests has all kubelets report until the controller has nothing to do.
func (m *model) rests() {
	for range 2 { // by the second report a node follows what its first one was too early for
		for _, n := range simulation.All[*corev1.Node](m.World) {
			m.beat(n)
		}
		m.Settle(time.Hour, nil)
	}
}

// checkShown checks that all nodes show the same interval, and that it contains the size of the cluster.
func (m *model) checkShown() {
	all := simulation.All[*corev1.Node](m.World)
	if len(all) == 0 {
		return
	}
	seconds, err := shown(all[0])
	fits := func(i interval) bool { return i.seconds == seconds && i.min <= len(all) && len(all) <= i.max }
	if err != nil || !slices.ContainsFunc(intervals[:], fits) {
		m.t.Errorf("%d nodes show %q", len(all), all[0].Annotations[corev1.ObjectTTLAnnotationKey])
	}
	for _, n := range all {
		if !shows(n, seconds) {
			m.t.Errorf("%s shows %q, and %s %d", n.Name, n.Annotations[corev1.ObjectTTLAnnotationKey], all[0].Name, seconds)
		}
	}
}

// TestWhateverHappensAllNodesShowWhatFitsTheSize has nodes come, go and come again, annotations removed, requests fail
// and the controller restarted, while the cache is behind, or lacks nodes.
func TestWhateverHappensAllNodesShowWhatFitsTheSize(t *testing.T) {
	whole := intervals
	defer func() { intervals = whole }()
	intervals = [...]interval{{0, 4, 0}, {3, 7, 15}, {6, 10, 30}, {9, 12, 60}, {11, math.MaxInt32, 300}}
	simulation.Run(t, 30, func(t *testing.T, w *simulation.World) { (&model{World: w, t: t}).run() })
}

func (m *model) run() {
	m.Validate = m.validate
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env))(m.t)
		queue := simulation.NewQueue(m.World, c.reconcile)
		c.queue = queue
		m.SyncHandlers()
		must.Succeed(m.t, c.begin(m.Context()))
		return simulation.Instance{Runners: []simulation.Runner{queue}}
	}
	for range m.Rand.IntN(12) {
		m.come(fmt.Sprint("node", m.Rand.IntN(14)))
	}
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 2}[m.Rand.IntN(2)]
	if m.OneIn(3) {
		m.Lossy = func(runtime.Object) bool { return true }
	}
	m.Play(m.others, m.user)
	m.Settle(time.Hour, nil)
	m.rests()
	m.checkShown()
	m.writes = 0
	m.rests()
	m.Succeed(nil)
	m.Begin() // another instance
	m.Settle(time.Hour, nil)
	if m.writes > 0 {
		m.t.Errorf("%d writes although all nodes show what they should", m.writes)
	}
}
