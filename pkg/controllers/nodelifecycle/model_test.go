package nodelifecycle

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with nodes in two zones, each with a kubelet that reports unless it is silent, and with a pod.
type model struct {
	*simulation.World
	t      *testing.T
	silent map[string]bool // by the name of the node
	// unwell are the nodes whose kubelets report that they are not ready, wasUnwell those that ever were, by name.
	unwell, wasUnwell map[string]bool
	// skew is how far the clock of a kubelet is ahead.
	skew map[string]time.Duration
	// reported is when a kubelet reported last, and last before that, by the UID of the node.
	reported map[types.UID][2]time.Time
	// wasUnready are the nodes that were once not ready.
	wasUnready map[types.UID]bool
}

const renewPeriod = 10 * time.Second

func (m *model) names() (all []string) {
	for i := range 3 {
		all = append(all, fmt.Sprint("a", i), fmt.Sprint("b", i))
	}
	return all
}

// reports returns what the kubelet of a node says about it.
func (m *model) reports(name string) corev1.ConditionStatus {
	if m.unwell[name] {
		return corev1.ConditionFalse
	}
	return corev1.ConditionTrue
}

// register is what the kubelet of a node that does not exist does.
func (m *model) register(name string) {
	n := node(name, inZone(name[:1]))
	n.UID, n.ResourceVersion, n.Status.Conditions = "", "", nil
	created := m.Create(n).(*corev1.Node)
	m.reported[created.UID] = [2]time.Time{m.Clock.Now(), m.Clock.Now()}
	if pod, ok := simulation.Get[*corev1.Pod](m.World, "ns", name); ok {
		m.Delete(pod, new(int64))
	}
	p := pod(name, name)
	p.UID, p.ResourceVersion, p.Status = "", "", corev1.PodStatus{}
	m.Create(p)
}

// kubelets has those kubelets report that are due, and reports whether any did.
func (m *model) kubelets() bool {
	did := false
	for _, name := range m.names() {
		n, ok := simulation.Get[*corev1.Node](m.World, "", name)
		if m.silent[name] || ok && m.Clock.Since(m.reported[n.UID][0]) < renewPeriod && statusOf(n) == m.reports(name) {
			continue
		}
		if did = true; !ok {
			m.register(name)
			continue
		}
		m.report(n)
	}
	return did
}

// report renews the Lease of a node. Its status is written if it is another one, and now and then.
func (m *model) report(n *corev1.Node) {
	if last := m.reported[n.UID][0]; !last.Equal(m.Clock.Now()) {
		m.reported[n.UID] = [2]time.Time{m.Clock.Now(), last}
	}
	now := metav1.NewMicroTime(m.Clock.Now().Add(m.skew[n.Name]))
	if l, ok := simulation.Get[*coordinationv1.Lease](m.World, corev1.NamespaceNodeLease, n.Name); ok {
		simulation.Change(m.World, l, func(l *coordinationv1.Lease) { l.Spec.RenewTime = &now })
	} else {
		m.Create(lease(n.Name, "", now.Time))
	}
	m.Note("kubelet of %s reports", n.Name)
	m.wasUnready[n.UID] = m.wasUnready[n.UID] || m.unwell[n.Name]
	if statusOf(n) != m.reports(n.Name) || m.OneIn(10) {
		simulation.Change(m.World, n, ready(m.reports(n.Name)), func(n *corev1.Node) {
			conditionOf(n, corev1.NodeReady).LastHeartbeatTime = metav1.NewTime(now.Truncate(time.Second))
		})
	}
	if p, ok := simulation.Get[*corev1.Pod](m.World, "ns", n.Name); ok && !pods.IsReady(p) {
		simulation.Change(m.World, p, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		})
	}
}

// user has nodes fall silent or come back, alone or with their zone, be not ready, and be deleted.
func (m *model) user() {
	names := m.names()
	name := names[m.Rand.IntN(len(names))]
	switch m.Rand.IntN(7) {
	case 0, 1:
		m.silent[name] = !m.silent[name]
		m.Note("%s is silent: %v", name, m.silent[name])
	case 2:
		silent := m.OneIn(2)
		m.Note("zone %s is silent: %v", name[:1], silent)
		for _, other := range names {
			if other[:1] == name[:1] {
				m.silent[other] = silent
			}
		}
	case 3:
		m.skew[name] = time.Duration(m.Rand.IntN(7200)-3600) * time.Second
		m.Note("the clock of %s is set", name)
	case 4:
		if n, ok := simulation.Get[*corev1.Node](m.World, "", name); ok && m.OneIn(2) {
			m.Delete(n, nil)
		}
	case 5:
		m.Clock.Step(renewPeriod)
	case 6:
		m.unwell[name] = !m.unwell[name]
		m.wasUnwell[name] = true
		m.Note("%s is ready: %v", name, !m.unwell[name])
	}
}

// validate checks what the controller writes.
func (m *model) validate(old, is runtime.Object) error {
	switch is := is.(type) {
	case *corev1.Node:
		was := old.(*corev1.Node)
		grace := settings.grace
		if statusOf(was) == "" {
			grace = settings.startupGrace
		}
		reported := m.reported[is.UID]
		// One that comes back can still be marked, by what was known before.
		silence := max(m.Clock.Since(reported[0]), reported[0].Sub(reported[1]))
		if statusOf(is) != statusOf(was) && silence < grace && !m.IsLateWrite() {
			m.t.Errorf("%s is marked %s after a silence of %v", is.Name, statusOf(is), silence)
		}
		m.wasUnready[is.UID] = m.wasUnready[is.UID] || statusOf(is) != corev1.ConditionTrue
		isAdded := func(taint corev1.Taint) bool { return !hasTaint(was, taint) }
		if statusOf(was) == corev1.ConditionTrue && slices.ContainsFunc(is.Spec.Taints, isAdded) {
			m.t.Errorf("%s is ready, and is tainted %v", is.Name, is.Spec.Taints)
		}
	case *corev1.Pod:
		n, ok := simulation.Get[*corev1.Node](m.World, "", is.Spec.NodeName)
		if ok && !m.wasUnready[n.UID] {
			m.t.Errorf("the pod of %s is marked, which was never not ready", n.Name)
		}
	}
	return nil
}

// liveScope reads Leases live for those who ask for them alone.
type liveScope struct {
	controller.Scope
	w *simulation.World
}

func (s liveScope) Filtered(controller.Filter) informers.SharedInformerFactory {
	return liveFactory{s.Scope, s.w}
}

func (s liveScope) Release(cache.SharedIndexInformer) {}

type liveFactory struct {
	informers.SharedInformerFactory
	w *simulation.World
}

func (f liveFactory) StartWithContext(context.Context) {}
func (f liveFactory) Coordination() coordination.Interface {
	return coordination.New(f, "", nil)
}

func (f liveFactory) InformerFor(
	_ runtime.Object, newInformer internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	i := newInformer(f.w.Fake, 0)
	for _, l := range simulation.All[*coordinationv1.Lease](f.w) {
		if err := i.GetIndexer().Add(l); err != nil {
			panic(err)
		}
	}
	return synced{i}
}

type synced struct{ cache.SharedIndexInformer }

func (synced) HasSynced() bool { return true }

func (m *model) start(env controller.Env, _ any) simulation.Instance {
	env.Informers = liveScope{env.Informers, m.World}
	c := must.Get(newController(env, settings))(m.t)
	nodes, marks := simulation.NewQueue(m.World, c.reconcileNode), simulation.NewQueue(m.World, c.markPodsOf)
	podQueue := simulation.NewQueue(m.World, c.reconcilePod)
	c.nodeQueue, c.markQueue, c.podQueue = nodes, marks, podQueue
	m.SyncHandlers()
	if err := c.begin(m.Context()); err != nil {
		m.t.Fatal(err)
	}
	passes := simulation.NewPasses(m.World, 0, time.Second, func(ctx context.Context) {
		c.passIfDue(ctx, ctx)
		c.grant()
	})
	return simulation.Instance{
		Runners: []simulation.Runner{nodes, marks, podQueue, passes}, HandOver: func() any { return c.HandOver() },
	}
}

// TestWhateverHappensOnlySilentNodesAreUnknown has nodes and zones fall silent and come back, be not ready, be deleted
// and registered again, clocks of kubelets set, requests fail and the controller restarted, while the caches are behind
// or incomplete.
func TestWhateverHappensOnlySilentNodesAreUnknown(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{
			World: w, t: t, silent: map[string]bool{}, unwell: map[string]bool{}, wasUnwell: map[string]bool{},
			skew: map[string]time.Duration{}, reported: map[types.UID][2]time.Time{}, wasUnready: map[types.UID]bool{},
		}).run()
	})
}

func (m *model) run() {
	m.Start, m.Validate = m.start, m.validate
	m.kubelets()
	m.kubelets()
	m.MayBeLossy(2)
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Play(func() {
		if m.kubelets(); m.OneIn(3) {
			m.Drain() // the caches catch up
		}
	}, m.user)
	for _, name := range m.names() {
		if _, ok := simulation.Get[*corev1.Node](m.World, "", name); !ok {
			m.register(name)
		}
	}
	m.Settle(5*time.Minute, m.kubelets)
	m.check()
}

func (m *model) check() {
	up := slices.ContainsFunc(m.names(), func(name string) bool { return !m.silent[name] && !m.unwell[name] })
	for _, n := range simulation.All[*corev1.Node](m.World) {
		p, _ := simulation.Get[*corev1.Pod](m.World, "ns", n.Name)
		// The pods of a node that was not ready stay as they are (NLC-39e).
		isReady := pods.IsReady(p)
		if m.wasUnwell[n.Name] {
			isReady = !m.silent[n.Name]
		}
		switch {
		case !m.silent[n.Name] && m.unwell[n.Name]:
			isShown := statusOf(n) == corev1.ConditionFalse && hasTaint(n, noSchedule(corev1.TaintNodeNotReady))
			if !isShown || hasTaint(n, unreachableTaint) || hasTaint(n, notReadyTaint) != up {
				m.t.Errorf("%s is %s, tainted %v; others are ready: %v", n.Name, statusOf(n), n.Spec.Taints, up)
			}
		case !m.silent[n.Name]:
			if statusOf(n) != corev1.ConditionTrue || len(n.Spec.Taints) > 0 || !isReady {
				m.t.Errorf("%s is %s, tainted %v, its pod is ready: %v", n.Name, statusOf(n), n.Spec.Taints, isReady)
			}
		case statusOf(n) != corev1.ConditionUnknown || !hasTaint(n, noSchedule(corev1.TaintNodeUnreachable)) || isReady:
			m.t.Errorf("%s is %s, tainted %v, its pod is ready: %v", n.Name, statusOf(n), n.Spec.Taints, isReady)
		case !up && isEvicting(n):
			m.t.Errorf("no node reports, and %s is tainted %v", n.Name, n.Spec.Taints)
		case up && !isEvicting(n):
			m.t.Errorf("others report, and %s is tainted %v", n.Name, n.Spec.Taints)
		}
	}
}
