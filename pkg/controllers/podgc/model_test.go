package podgc

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world in which nodes come and go under the same names, and so do pods.
type model struct {
	*simulation.World
	t         *testing.T
	threshold int
	// boundTo is the node that each pod was bound to.
	boundTo map[types.UID]types.UID
}

func (m *model) nodeOf(pod *corev1.Pod) (*corev1.Node, bool) {
	return simulation.Get[*corev1.Node](m.World, "", pod.Spec.NodeName)
}

// isLost reports whether no kubelet will end a pod.
func (m *model) isLost(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return pod.DeletionTimestamp != nil
	}
	node, ok := m.nodeOf(pod)
	return !ok || node.UID != m.boundTo[pod.UID] || pod.DeletionTimestamp != nil && isOutOfService(node)
}

// waits reports whether no kubelet or scheduler does anything with a pod.
func (m *model) waits(pod *corev1.Pod) bool {
	node, ok := m.nodeOf(pod)
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil ||
		pod.Spec.NodeName != "" && (!ok || node.UID != m.boundTo[pod.UID] || !isReady(node))
}

// validate checks that no pod is set to failed while a kubelet runs it.
func (m *model) validate(old, new runtime.Object) error {
	was, is := old.(*corev1.Pod), new.(*corev1.Pod)
	if !pods.IsTerminal(was) && pods.IsTerminal(is) && !m.isLost(was) {
		return fmt.Errorf("pod %s %s on node %q fails", was.Name, was.UID, was.Spec.NodeName)
	}
	return nil
}

func (m *model) node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.shape(node)
	return node
}

func (m *model) shape(node *corev1.Node) {
	node.Spec.Taints = nil
	ready := corev1.ConditionTrue
	if m.OneIn(3) {
		ready = corev1.ConditionUnknown
	}
	if m.OneIn(2) {
		node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
}

func (m *model) user() {
	n := m.Rand.IntN
	if n(3) == 0 {
		name := fmt.Sprint("n", n(3))
		switch node, ok := simulation.Get[*corev1.Node](m.World, "", name); {
		case !ok:
			m.Create(m.node(name))
		case n(2) == 0:
			m.Delete(node, nil)
		default:
			m.Note("node %s is changed", name)
			simulation.Change(m.World, node, m.shape)
		}
		return
	}
	name := fmt.Sprint("p", n(6))
	switch pod, ok := simulation.Get[*corev1.Pod](m.World, "ns", name); {
	case !ok:
		m.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	case n(2) == 0 && pod.DeletionTimestamp == nil:
		m.Delete(pod, nil)
	case n(2) == 0:
		m.Delete(pod, ptr.To[int64](0))
	case !pods.IsTerminal(pod) && !m.waits(pod) && pod.Spec.NodeName != "":
		m.Note("pod %s ends", pod.Name)
		simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	}
}

// bind has the scheduler bind pods to nodes that exist.
func (m *model) bind() {
	nodes := simulation.All[*corev1.Node](m.World)
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(nodes) == 0 || !m.OneIn(2) {
			continue
		}
		node := nodes[m.Rand.IntN(len(nodes))]
		m.boundTo[pod.UID] = node.UID
		m.Note("pod %s is bound to %s", pod.Name, node.Name)
		simulation.Change(m.World, pod, func(p *corev1.Pod) { p.Spec.NodeName = node.Name })
	}
}

// TestWhateverHappensLostPodsGoAndOthersStay has nodes deleted, recreated and taken out of service, pods deleted,
// requests fail and the controller restarted, while the caches are behind or incomplete.
func TestWhateverHappensLostPodsGoAndOthersStay(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, boundTo: map[types.UID]types.UID{}}).run()
	})
}

func (m *model) run() {
	m.threshold = 1 + m.Rand.IntN(3)
	m.Start = func(env controller.Env, left any) simulation.Instance {
		gc := must.Get(newController(env, config{m.threshold}))(m.t)
		if left != nil {
			gc.quarantine.takeOver(left.(handover), m.Clock.Now())
		}
		passes := simulation.NewPasses(m.World, 0, passPeriod, func(ctx context.Context) { gc.pass(ctx, ctx) })
		return simulation.Instance{Runners: []simulation.Runner{passes}, HandOver: func() any { return gc.HandOver() }}
	}
	m.Validate = m.validate
	m.Deleted = func(object runtime.Object) {
		if pod := object.(*corev1.Pod); !pods.IsTerminal(pod) {
			m.t.Errorf("pod %s %s is deleted in phase %s", pod.Name, pod.UID, pod.Status.Phase)
		}
	}
	kubelet := simulation.Kubelet{World: m.World, Unready: 2, Waits: func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == "" || m.waits(pod)
	}}
	for i := range 3 {
		m.Create(m.node(fmt.Sprint("n", i)))
	}
	m.MayBeLossy(2)
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Play(func() {
		m.bind()
		kubelet.Act(false)
		m.user()
	}, func() { m.Clock.Step(time.Duration(m.Rand.IntN(60)) * time.Second) })
	m.Settle(5*time.Minute, func() bool { return kubelet.Act(true) })
	m.check()
}

func (m *model) check() {
	ended := 0
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if pods.IsTerminal(pod) {
			ended++
		}
		node, ok := m.nodeOf(pod)
		isDeleted := pod.DeletionTimestamp != nil
		if pod.Spec.NodeName != "" && !ok || isDeleted && pod.Spec.NodeName == "" || isDeleted && ok && isOutOfService(node) {
			m.t.Errorf("pod %s %s on node %q is left", pod.Name, pod.UID, pod.Spec.NodeName)
		}
	}
	if ended > m.threshold {
		m.t.Errorf("%d pods that have ended are left, more than %d", ended, m.threshold)
	}
}
