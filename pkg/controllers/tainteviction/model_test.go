package tainteviction

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with nodes that have taints, and pods.
type model struct {
	*simulation.World
	t *testing.T
	// tolerations are all that a pod has had, by UID, and taints all that nodes of a name have had.
	tolerations map[types.UID][][]corev1.Toleration
	taints      map[string][][]corev1.Taint
	// earliest is when a pod may be evicted at the earliest, whatever the caches show.
	earliest map[types.UID]time.Time
	// marked are the pods that were marked as the target of a disruption.
	marked map[types.UID]bool
}

// lasts returns for how long a pod with some tolerations stays on a node with some taints.
func lasts(tolerations []corev1.Toleration, taints []corev1.Taint) time.Duration {
	tolerances, all := config{}.tolerances(klog.Background(), tolerations, taints)
	if !all {
		return 0
	}
	return shortest(tolerances)
}

// observe is to be called after each change of nodes and pods. A pod may be judged by an older state of itself, or of its
// node, than the newest.
func (m *model) observe() {
	for _, node := range simulation.All[*corev1.Node](m.World) {
		m.taints[node.Name] = appendNew(m.taints[node.Name], noExecute(node))
	}
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		was := m.tolerations[pod.UID]
		m.tolerations[pod.UID] = appendNew(was, pod.Spec.Tolerations)
		if pod.Spec.NodeName == "" {
			continue
		}
		for _, taints := range m.taints[pod.Spec.NodeName] {
			for _, tolerations := range m.tolerations[pod.UID] {
				m.mayEnd(pod.UID, lasts(tolerations, taints))
			}
		}
	}
}

func (m *model) mayEnd(pod types.UID, after time.Duration) {
	if after == forever {
		return
	}
	at := m.Clock.Now().Add(after)
	if earliest, ok := m.earliest[pod]; !ok || at.Before(earliest) {
		m.earliest[pod] = at
	}
}

func appendNew[T any](all [][]T, state []T) [][]T {
	if slices.ContainsFunc(all, func(s []T) bool { return fmt.Sprint(s) == fmt.Sprint(state) }) {
		return all
	}
	return append(all, state)
}

// deleting fails the test if the controller deletes a pod too early, or without having said why.
func (m *model) deleting(action clienttesting.Action) (bool, runtime.Object, error) {
	a := action.(clienttesting.DeleteAction)
	pod, ok := simulation.Get[*corev1.Pod](m.World, "ns", a.GetName())
	if !ok || *a.GetDeleteOptions().Preconditions.UID != pod.UID {
		return false, nil, nil
	}
	if earliest, ok := m.earliest[pod.UID]; !ok || m.Clock.Now().Before(earliest) {
		m.t.Errorf("pod %s %s is evicted, but not before %v", pod.Name, pod.UID, earliest)
	}
	if !m.marked[pod.UID] {
		m.t.Errorf("pod %s %s is evicted without the condition", pod.Name, pod.UID)
	}
	return false, nil, nil
}

func (m *model) validate(_, is runtime.Object) error {
	pod := is.(*corev1.Pod)
	isMark := func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }
	m.marked[pod.UID] = slices.ContainsFunc(pod.Status.Conditions, isMark)
	return nil
}

func (m *model) node(name string) (*corev1.Node, bool) {
	return simulation.Get[*corev1.Node](m.World, "", name)
}

// someNode returns a node, any name if there is none.
func (m *model) someNode(*corev1.Pod) string {
	if all := simulation.All[*corev1.Node](m.World); len(all) > 0 {
		return all[m.Rand.IntN(len(all))].Name
	}
	return "n0"
}

func (m *model) randomTaints() []corev1.Taint {
	var taints []corev1.Taint
	for _, key := range []string{"a", "b"} {
		switch m.Rand.IntN(5) {
		case 0:
			taints = append(taints, taint(key))
		case 1:
			taints = append(taints, taint(key, m.Clock.Now().Truncate(time.Second)))
		}
	}
	return taints
}

func (m *model) randomTolerations() []corev1.Toleration {
	var tolerations []corev1.Toleration
	for _, key := range []string{"a", "b"} {
		switch n := m.Rand.IntN(5); n {
		case 0, 1, 2:
			tolerations = append(tolerations, tolerates(key, []int64{0, 5, 60}[n]))
		case 3:
			tolerations = append(tolerations, tolerates(key))
		}
	}
	return tolerations
}

func (m *model) user() {
	n := m.Rand.IntN
	name := fmt.Sprint("n", n(2))
	node, isNode := m.node(name)
	pod, isPod := simulation.Get[*corev1.Pod](m.World, "ns", fmt.Sprint("p", n(4)))
	switch n(8) {
	case 0, 1, 2:
		if isNode {
			m.Note("taints of %s change", name)
			taints := m.randomTaints()
			simulation.Change(m.World, node, func(n *corev1.Node) { n.Spec.Taints = taints })
		}
	case 3:
		if isNode {
			m.Delete(node, nil)
		}
		if !isNode || n(2) == 0 {
			m.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: m.randomTaints()}})
		}
	case 4, 5, 6:
		if isPod {
			m.Delete(pod, []*int64{nil, ptr.To[int64](0)}[n(2)])
		}
		for i := range 4 {
			m.createPod(fmt.Sprint("p", i))
		}
	case 7:
		if isPod {
			m.Note("tolerations of %s change", pod.Name)
			tolerations := m.randomTolerations()
			simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Spec.Tolerations = tolerations })
		}
	}
	m.observe()
}

// createPod creates a pod, sometimes on a node, unless there is one of that name.
func (m *model) createPod(name string) {
	if _, ok := simulation.Get[*corev1.Pod](m.World, "ns", name); ok || m.OneIn(3) {
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	pod.Spec.Tolerations = m.randomTolerations()
	if m.OneIn(2) {
		pod.Spec.NodeName = m.someNode(pod)
	}
	m.Create(pod)
}

// pods returns the pods on nodes that are to be evicted sooner or later, or those that are not.
func (m *model) pods(toEvict bool) []*corev1.Pod {
	all := simulation.All[*corev1.Pod](m.World)
	return slices.DeleteFunc(all, func(pod *corev1.Pod) bool {
		node, ok := m.node(pod.Spec.NodeName)
		if !ok || pod.DeletionTimestamp != nil {
			return true
		}
		taints := noExecute(node)
		return (len(taints) > 0 && lasts(pod.Spec.Tolerations, taints) < forever) != toEvict
	})
}

// TestWhateverHappensNoPodIsEvictedTooEarly has taints come and go, nodes and pods replaced by others of their names,
// requests fail and the controller restarted, while the caches are behind or incomplete. In the end the pods that do
// not tolerate the taints of their nodes are gone, and no others.
func TestWhateverHappensNoPodIsEvictedTooEarly(t *testing.T) {
	simulation.Run(t, 60, func(t *testing.T, w *simulation.World) {
		m := &model{
			World: w, t: t, tolerations: map[types.UID][][]corev1.Toleration{},
			taints: map[string][][]corev1.Taint{}, earliest: map[types.UID]time.Time{}, marked: map[types.UID]bool{},
		}
		m.run()
	})
}

func (m *model) run() {
	kubelet := simulation.Kubelet{World: m.World, NodeOf: m.someNode}
	m.Validate = m.validate
	m.Fake.PrependReactor("delete", "pods", m.deleting)
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env, config{separate: true}))(m.t)
		nodes, pods := simulation.NewQueue(m.World, c.reconcileNode), simulation.NewQueue(m.World, c.reconcilePod)
		evictions := simulation.NewQueue(m.World, c.evict)
		c.nodeQueue, c.podQueue, c.evictionQueue = nodes, pods, evictions
		must.Succeed(m.t, c.begin(m.Context()))
		return simulation.Instance{
			Runners: []simulation.Runner{nodes, pods, evictions}, HandOver: func() any { return c.HandOver() },
		}
	}
	act := func(all bool) bool {
		did := kubelet.Act(all)
		m.observe()
		return did
	}
	for range 5 {
		m.user()
	}
	m.MayBeLossy(2)
	m.Hasty = []int{0, 3}[m.Rand.IntN(2)]
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Play(func() { act(false) }, func() {
		for range 1 + m.Rand.IntN(3) {
			m.user()
		}
	})
	m.Faulty = false
	m.AwaitLate() // what was decided long ago may be wrong by now
	m.Drain()
	stay := m.pods(false)
	m.Settle(20*time.Minute, func() bool { return act(true) })
	for _, pod := range m.pods(true) {
		m.t.Errorf("pod %s stays", pod.Name)
	}
	left := simulation.All[*corev1.Pod](m.World)
	for _, pod := range stay {
		if !slices.ContainsFunc(left, func(p *corev1.Pod) bool { return p.UID == pod.UID && p.DeletionTimestamp == nil }) {
			m.t.Errorf("pod %s %s is gone", pod.Name, pod.UID)
		}
	}
}
