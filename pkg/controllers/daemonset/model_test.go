package daemonset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with nodes and a set.
type model struct {
	*simulation.World
	c          *daemonSetController
	duplicates int // how many revisions were restored
}

func (m *model) set() (*appsv1.DaemonSet, bool) {
	return simulation.Get[*appsv1.DaemonSet](m.World, namespace, key.Name)
}

func (m *model) isOnNode(pod *corev1.Pod) bool {
	_, ok := simulation.Get[*corev1.Node](m.World, "", targetOf(pod))
	return ok
}

// others are the garbage collector and pod garbage collection.
func (m *model) others() bool {
	did := m.CollectGarbage()
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if pod.Spec.NodeName != "" && !m.isOnNode(pod) {
			m.Delete(pod, ptr.To[int64](0))
			did = true
		}
	}
	return did
}

func (m *model) randomSet() *appsv1.DaemonSet {
	n := m.Rand.IntN
	ds := newSet()
	ds.UID, ds.ResourceVersion = "", ""
	switch n(4) {
	case 0:
		surging(int32(1 + n(2)))(ds)
	case 1:
		onDelete(ds)
	case 2:
		strategy(intstr.FromString(fmt.Sprint(10*n(10), "%")), intstr.FromInt32(0))(ds)
	}
	if n(3) == 0 {
		minReady(int32(1 + n(20)))(ds)
	}
	if n(2) == 0 {
		ds.Spec.Template.Spec.NodeSelector = map[string]string{"role": "a"}
	}
	ds.Spec.RevisionHistoryLimit = ptr.To(int32(n(3)))
	return ds
}

func (m *model) node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.shape(node)
	return node
}

func (m *model) shape(node *corev1.Node) {
	node.Labels = map[string]string{"role": []string{"a", "a", "b"}[m.Rand.IntN(3)]}
	node.Spec.Taints = nil
	switch m.Rand.IntN(6) {
	case 0:
		node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	case 1:
		node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
	}
}

func (m *model) user() {
	n := m.Rand.IntN
	name := fmt.Sprint("n", n(4))
	node, there := simulation.Get[*corev1.Node](m.World, "", name)
	switch n(3) {
	case 0:
		switch {
		case !there:
			m.Create(m.node(name))
		case n(4) == 0:
			m.Delete(node, nil)
		default:
			m.Note("node %s is changed", name)
			simulation.Change(m.World, node, m.shape)
		}
		return
	}
	set, ok := m.set()
	if !ok {
		if n(2) == 0 {
			m.Create(m.randomSet())
		}
		return
	}
	switch n(10) {
	case 9:
		m.Note("user sets limits")
		other := m.randomSet()
		simulation.Change(m.World, set, func(s *appsv1.DaemonSet) {
			s.Spec.MinReadySeconds, s.Spec.RevisionHistoryLimit = other.Spec.MinReadySeconds, other.Spec.RevisionHistoryLimit
		})
	case 0, 1, 2:
		v := fmt.Sprint("v", 1+n(4))
		m.Note("user sets image %s", v)
		simulation.Change(m.World, set, image(v))
	case 3:
		m.Note("user sets strategy")
		other := m.randomSet()
		simulation.Change(m.World, set, func(s *appsv1.DaemonSet) { s.Spec.UpdateStrategy = other.Spec.UpdateStrategy })
	case 4:
		m.Note("user sets selector")
		other := m.randomSet().Spec.Template.Spec.NodeSelector
		simulation.Change(m.World, set, func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.NodeSelector = other })
	case 5:
		if n(3) == 0 {
			m.Delete(set, nil)
		}
	case 6:
		if all := simulation.All[*corev1.Pod](m.World); len(all) > 0 {
			if pod := all[n(len(all))]; pod.DeletionTimestamp == nil {
				m.Delete(pod, nil)
			}
		}
	case 7:
		if all := simulation.All[*corev1.Pod](m.World); len(all) > 0 {
			pod := all[n(len(all))]
			m.Note("user orphans or relabels %s", pod.Name)
			simulation.Change(m.World, pod, func(p *corev1.Pod) {
				if n(2) == 0 {
					p.OwnerReferences = nil
				} else if n(2) == 0 {
					p.Labels = map[string]string{"app": "other"}
				}
			})
		}
	case 8:
		m.duplicateRevision()
	}
}

// duplicateRevision has somebody restore a revision from a backup, under another name, with another hash and without an
// owner, beside the one that exists. It is adopted, the two are merged, and pods relabelled.
func (m *model) duplicateRevision() {
	all := simulation.All[*appsv1.ControllerRevision](m.World)
	if len(all) == 0 {
		return
	}
	r := all[m.Rand.IntN(len(all))].DeepCopy()
	m.duplicates++
	hash := fmt.Sprint("dup", m.duplicates)
	r.ObjectMeta = metav1.ObjectMeta{
		Namespace: r.Namespace, Name: key.Name + "-" + hash, Labels: maps.Clone(r.Labels),
	}
	r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = hash
	r.Revision += int64(m.Rand.IntN(3)) - 1
	m.Create(r)
}

// TestWhateverHappensEachNodeHasItsPodInTheEnd has pods fail, nodes changed and deleted, specs edited, requests fail
// and the controller restarted, while the caches are behind, or lack objects that exist.
func TestWhateverHappensEachNodeHasItsPodInTheEnd(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) { (&model{World: w}).run(t) })
}

func (m *model) run(t *testing.T) {
	kubelet := simulation.Kubelet{
		World: m.World, Unready: m.Rand.IntN(5), NodeOf: targetOf,
		Waits: func(pod *corev1.Pod) bool { return !m.isOnNode(pod) },
	}
	cfg := config{concurrentSyncs: 1, requireFresh: m.Rand.IntN(2) == 0}
	m.Start = func(env controller.Env, left any) simulation.Instance {
		c := must.Get(newController(env, cfg))(t)
		queue := simulation.NewQueue(m.World, c.owners.Reconcile)
		nodes := simulation.NewQueue(m.World, c.reconcileNode)
		c.owners.Queue, c.nodeQueue = queue, nodes
		if left != nil {
			c.takeOver(left.(handover))
		}
		m.c = c
		return simulation.Instance{Runners: []simulation.Runner{queue, nodes}, HandOver: func() any { return c.HandOver() }}
	}
	m.MayBeLossy(2)
	lossy := m.Lossy != nil
	for i := range 1 + m.Rand.IntN(4) {
		m.Create(m.node(fmt.Sprint("n", i)))
	}
	m.Create(m.randomSet())
	m.MayComeLate = simulation.AnyWrite
	kubelet.Live(m.others, m.user)
	if set, ok := m.set(); ok && lossy { // nothing has it reconciled when the cache finds revisions again
		simulation.Change(m.World, set, func(s *appsv1.DaemonSet) { s.Annotations = map[string]string{"seen": "yes"} })
		m.Settle(2*time.Hour, func() bool { return m.others() || kubelet.Act(true) })
	}
	m.check(t)
}

func (m *model) check(t *testing.T) {
	set, ok := m.set()
	byNode := map[string][]*corev1.Pod{}
	owned := 0
	live := map[string]bool{}
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		if metav1.GetControllerOf(pod) == nil {
			continue
		}
		owned++
		byNode[targetOf(pod)] = append(byNode[targetOf(pod)], pod)
		live[pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]] = true
	}
	if !ok {
		if owned > 0 {
			t.Errorf("%d pods stay", owned)
		}
		return
	}
	b := must.Get(m.c.blueprints.of(set))(t)
	desired, misscheduled, current := int32(0), int32(0), int32(0)
	hash := m.checkRevisions(t, set, live)
	for _, node := range simulation.All[*corev1.Node](m.World) {
		pods := byNode[node.Name]
		delete(byNode, node.Name)
		e := b.placement.on(klog.Background(), node)
		if e.run {
			desired++
		}
		switch {
		case e.run && len(pods) != 1:
			t.Errorf("node %s has %d pods", node.Name, len(pods))
		case !e.remain && len(pods) > 0:
			t.Errorf("node %s has %d pods, should have none", node.Name, len(pods))
		case len(pods) > 1:
			t.Errorf("node %s has %d pods", node.Name, len(pods))
		}
		if len(pods) > 0 {
			if !e.run {
				misscheduled++
			} else {
				current++
				has := pods[0].Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
				if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && has != hash {
					t.Errorf("pod %s has hash %s, want %s", pods[0].Name, has, hash)
				}
			}
		}
	}
	for node, pods := range byNode {
		t.Errorf("node %s, which is gone, has %d pods", node, len(pods))
	}
	s := set.Status
	is, want := countsOf(s), counts{
		desired: desired, misscheduled: misscheduled, current: current, ready: current, available: current,
		updated: s.UpdatedNumberScheduled, unavailable: desired - current,
	}
	if s.ObservedGeneration != set.Generation || is != want {
		t.Errorf("status %+v; desired %d, misscheduled %d, current %d", s, desired, misscheduled, current)
	}
}

// checkRevisions checks the history of a set, whose pods have the live hashes, and returns the hash of the newest
// revision. Revisions that pods are at are kept beyond the limit.
func (m *model) checkRevisions(t *testing.T, set *appsv1.DaemonSet, live map[string]bool) string {
	all := simulation.All[*appsv1.ControllerRevision](m.World)
	if len(all) == 0 {
		t.Fatal("there is no revision")
	}
	newest := slices.MaxFunc(all, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	old, unused := len(all)-1, 0
	for _, r := range all {
		if r != newest && !live[r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]] {
			unused++
		}
	}
	if old > int(*set.Spec.RevisionHistoryLimit) && unused > 0 {
		t.Errorf("%d old revisions, of which no pod is at %d", old, unused)
	}
	return newest.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
}
