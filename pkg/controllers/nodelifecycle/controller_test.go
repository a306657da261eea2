package nodelifecycle

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins NLC-1, NLC-2, NLC-6, NLC-13, NLC-16, NLC-23, NLC-24, NLC-25, NLC-93 and NLC-96.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "node-lifecycle-controller" || !slices.Equal(d.Aliases, []string{"nodelifecycle"}) || d.ServiceAccount != "node-controller" ||
		d.EventSource != "node-controller" || d.Gate != "" {
		t.Errorf("described as %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if on, why := d.Enabled(cfg); !on {
		t.Errorf("not enabled: %s", why)
	}
	var requires []string
	for _, r := range d.Requires {
		requires = append(requires, r.Resource)
	}
	if !slices.Equal(requires, []string{"pods", "nodes", "leases"}) {
		t.Errorf("requires %q", requires)
	}
	if d.Value(cfg) != settings {
		t.Errorf("by default it reads %+v", d.Value(cfg))
	}
	env := controllertest.New(t)
	c := must.Get(d.New(env.Env, d.Value(cfg)))(t)
	built := c.(*lifecycleController)
	for queue, workers := range map[string]int{"node_lifecycle_controller": 8, "node_lifecycle_controller_pods": 4, "node_lifecycle_controller_not_ready": 8} {
		found := false
		for _, loop := range []controller.Inspectable{built.nodeLoop, built.podLoop, built.markLoop} {
			s := loop.Inspect()
			found = found || s.Queue == queue && s.Workers == workers
		}
		if !found {
			t.Errorf("no queue %s with %d workers", queue, workers)
		}
	}
	if _, ok := env.Informers.Core().V1().Pods().Informer().GetIndexer().GetIndexers()["spec.nodeName"]; !ok {
		t.Error("pods are not indexed by node")
	}
}

// Every setting is read. Pins NLC-7, NLC-8, NLC-9, NLC-10, NLC-11 and NLC-12.
func TestValueHasEverySetting(t *testing.T) {
	d, usual := Descriptor(), Descriptor().Value(v1beta1.NewDefault())
	for name, change := range map[string]func(*v1beta1.NodeLifecycleController){
		"nodeMonitorPeriod":         func(l *v1beta1.NodeLifecycleController) { l.NodeMonitorPeriod.Duration++ },
		"nodeMonitorGracePeriod":    func(l *v1beta1.NodeLifecycleController) { l.NodeMonitorGracePeriod.Duration++ },
		"nodeStartupGracePeriod":    func(l *v1beta1.NodeLifecycleController) { l.NodeStartupGracePeriod.Duration++ },
		"nodeEvictionRate":          func(l *v1beta1.NodeLifecycleController) { l.NodeEvictionRate = ptr.To[float32](1) },
		"secondaryNodeEvictionRate": func(l *v1beta1.NodeLifecycleController) { l.SecondaryNodeEvictionRate = ptr.To[float32](1) },
		"largeClusterSizeThreshold": func(l *v1beta1.NodeLifecycleController) { l.LargeClusterSizeThreshold = ptr.To[int32](1) },
		"unhealthyZoneThreshold":    func(l *v1beta1.NodeLifecycleController) { l.UnhealthyZoneThreshold = ptr.To[float32](1) },
	} {
		cfg := v1beta1.NewDefault()
		change(&cfg.Controllers.NodeLifecycle)
		if reflect.DeepEqual(d.Value(cfg), usual) {
			t.Errorf("%s makes no difference", name)
		}
	}
}

// captured are the handlers of a controller, which a test calls.
func captured(t testing.TB) (c *lifecycleController, nodes, pods, leases *controllertest.Captured) {
	t.Helper()
	env := controllertest.New(t)
	c = must.Get(newController(env.Env, settings))(t)
	core := env.Informers.Core().V1()
	pods = &controllertest.Captured{SharedIndexInformer: core.Pods().Informer()}
	leases = &controllertest.Captured{SharedIndexInformer: env.Informers.Coordination().V1().Leases().Informer()}
	nodes = &controllertest.Captured{SharedIndexInformer: core.Nodes().Informer()}
	c.watch(nodes, pods, leases)
	return c, nodes, pods, leases
}

// Pins NLC-14, NLC-15, NLC-76, NLC-83 and NLC-111.
func TestWatch(t *testing.T) {
	c, nodes, pods, leases := captured(t)
	queued := func(what string, want int) {
		t.Helper()
		if got := c.nodeLoop.Inspect().Depth + c.podLoop.Inspect().Depth; got != want {
			t.Errorf("%d queued after %s, want %d", got, what, want)
		}
	}
	nodes.Handler.OnAdd(node("n"), true)
	nodes.Handler.OnUpdate(node("n"), node("n"))
	nodes.Handler.OnUpdate(node("n"), "no node")
	queued("a node that is fine", 0)
	nodes.Handler.OnAdd(node("cordoned", cordoned), true)
	if s := c.nodeLoop.Inspect(); s.Backlog != 1 {
		t.Errorf("%d in the backlog", s.Backlog)
	}
	nodes.Handler.OnUpdate(node("n"), node("n", func(n *corev1.Node) { n.Labels["kubernetes.io/os"] = "linux" }))
	queued("a node without a label", 2)
	nodes.Handler.OnAdd(node("down", ready(corev1.ConditionUnknown), tainted(noSchedule(corev1.TaintNodeUnreachable))), false)
	queued("a node whose taints are right", 2)

	pods.Handler.OnAdd(pod("old", "down"), true)
	queued("a pod that is replayed", 2)
	pods.Handler.OnAdd(pod("static", "down"), false)
	pods.Handler.OnUpdate(pod("bound", ""), pod("bound", "down"))
	queued("pods that are bound", 4)
	pods.Handler.OnUpdate(pod("other", "down"), pod("other", "down"))
	pods.Handler.OnDelete(pod("deleted", "down"))
	queued("pods that were bound before", 4)
	recreated := pod("recreated", "down")
	recreated.UID = "another"
	pods.Handler.OnUpdate(pod("recreated", "down"), recreated)
	queued("a pod that was recreated on the node, seen as one update", 5)

	renewed := metav1.NewMicroTime(at)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n", ResourceVersion: "1"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	newer := lease.DeepCopy()
	newer.ResourceVersion = "2"
	leases.Handler.OnAdd(lease, true)
	leases.Handler.OnUpdate(lease, newer)
	leases.Handler.OnAdd(newer, false)
	queued("renewals", 5)

	nodes.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "n", Obj: node("n")})
	nodes.Handler.OnDelete("no node")
	if c.cluster.nodes["n"] != nil {
		t.Error("a node that is gone is remembered")
	}
}

// Pins NLC-17, NLC-25, NLC-53, NLC-68 and NLC-69. The loops and passes run.
func TestRun(t *testing.T) {
	objects := []runtime.Object{
		node("n"), node("other"), pod("p", "n"),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "other"}},
	}
	env := controllertest.New(t, objects...)
	c := must.Get(newController(env.Env, settings))(t)
	env.Start(t)
	env.Run(t, c)
	leases := env.Fake.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	beat := 0
	env.EventuallyAsTimePasses(t, "the node is tainted", time.Second, func() bool {
		if beat++; beat%8 == 0 {
			renewed := metav1.NewMicroTime(env.Clock.Now())
			_, err := leases.Update(env.Context(), &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "other", ResourceVersion: fmt.Sprint(beat)},
				Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
			}, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		n := controllertest.MustStored[*corev1.Node](t, env, "", "n")
		return isEvicting(n) && hasTaint(n, noSchedule(corev1.TaintNodeUnreachable))
	})
	controllertest.Eventually(t, "the pod is marked", func() bool {
		return !isShownReady(controllertest.MustStored[*corev1.Pod](t, env, "ns", "p"))
	})
	for metric, least := range map[string]int{"node_collector_update_all_nodes_health_duration_seconds": 10, "node_collector_update_node_health_duration_seconds": 20} {
		var seen int
		if series := env.Series(t, metric); len(series) != 1 {
			t.Errorf("%s is %q", metric, series)
		} else if _, err := fmt.Sscan(series[0], &seen); err != nil || seen < least {
			t.Errorf("%s has %d observations, want %d: %v", metric, seen, least, err)
		}
	}
	if verbs := strings.Join(env.WriteVerbs(), " "); !strings.Contains(verbs, "update patch") {
		t.Errorf("sent %s", verbs)
	}
}

// What fails for many nodes is retried as soon as what fails for one. Pins NLC-83.
func TestManyNodesAreRetriedSoon(t *testing.T) {
	const many = 1_000
	env := controllertest.New(t)
	c := must.Get(newController(env.Env, settings))(t)
	loops := []*reconcile.Loop[string]{c.nodeLoop, c.markLoop}
	for _, loop := range loops {
		for i := range many {
			loop.AddRateLimited(fmt.Sprint(i))
		}
	}
	env.Clock.Step(lastRetry)
	env.Start(t)
	env.Run(t, c)
	for _, loop := range loops {
		controllertest.Eventually(t, "all nodes were retried", func() bool { return loop.Inspect().Reconciled == many })
	}
}

// large is a controller with 1,000 nodes, and 10 pods on each.
func large(b *testing.B) *world {
	b.Helper()
	var objects []runtime.Object
	for _, zone := range []string{"a", "b", "c"} {
		objects = append(objects, group(zone, 333)...)
	}
	for i := range 10_000 {
		objects = append(objects, pod(fmt.Sprintf("p%d", i), fmt.Sprintf("a%02d", i%333)))
	}
	w := newWorld(b, settings, objects...)
	w.pass(b.Context(), b.Context())
	return w
}

// A renewal of a Lease costs no allocation.
func BenchmarkRenewal(b *testing.B) {
	w := large(b)
	leases := make([]*coordinationv1.Lease, 2)
	for i := range leases {
		renewed := metav1.NewMicroTime(at)
		leases[i] = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a07", ResourceVersion: fmt.Sprint(i)}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	b.ReportAllocs()
	for b.Loop() {
		leases[1].Spec.RenewTime.Time = leases[1].Spec.RenewTime.Add(time.Microsecond)
		w.renewed(reconcile.Fresh, leases[1])
	}
}

// A heartbeat in the status of a node costs no allocation worth naming.
func BenchmarkHeartbeat(b *testing.B) {
	w := large(b)
	n := node("a07")
	b.ReportAllocs()
	for b.Loop() {
		conditionOf(n, corev1.NodeReady).LastHeartbeatTime.Time = at.Add(time.Second)
		w.shown(reconcile.Fresh, n)
	}
}

// A pass in which nothing happens sends nothing, and does not look at pods.
func BenchmarkIdlePass(b *testing.B) {
	w := large(b)
	w.Fake.ClearActions()
	b.ReportAllocs()
	for b.Loop() {
		w.pass(b.Context(), b.Context())
		w.grant()
	}
	if requests := w.Requests(); len(requests) != 0 {
		b.Fatalf("not idle: %v", requests[0])
	}
}

// Leases of others share the cache, such as that of a leader that is named like a node. So the
// garbage collector, which watches all kinds, does not receive renewals once more. Pins NLC-99.
func TestOnlyLeasesOfNodesAreHeartbeats(t *testing.T) {
	w := newWorld(t, settings, node("n"))
	renewed := metav1.NewMicroTime(at.Add(time.Second))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "n"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	w.renewed(reconcile.Fresh, lease)
	if got := w.cluster.nodes["n"].renewed; !got.IsZero() {
		t.Errorf("a Lease of another namespace was taken for a renewal at %v", got)
	}
	lease.Namespace = corev1.NamespaceNodeLease
	w.renewed(reconcile.Fresh, lease)
	if got := w.cluster.nodes["n"].renewed; !got.Equal(&renewed) {
		t.Errorf("the renewal is at %v", got)
	}
	if d := Descriptor(); !slices.Contains(d.Whole(d.Value(v1beta1.NewDefault())), coordinationv1.SchemeGroupVersion.WithResource("leases")) {
		t.Error("Leases are not cached whole")
	}
}

// Pins NLC-81.
func TestNothingIsAllocatedForARenewal(t *testing.T) {
	w := newWorld(t, settings, node("n"))
	renewed := metav1.NewMicroTime(at)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	allocated := testing.AllocsPerRun(100, func() {
		renewed.Time = renewed.Add(time.Microsecond)
		w.renewed(reconcile.Fresh, lease)
	})
	if allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
	w.work(t)
	if allocated := testing.AllocsPerRun(100, func() { w.cluster.findSilent(at, func() {}) }); allocated != 0 {
		t.Errorf("%v allocations to find that no node is silent", allocated)
	}
}
