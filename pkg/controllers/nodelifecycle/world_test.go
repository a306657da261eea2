package nodelifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/runtime/informers/informerstest"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var at = controllertest.Epoch

// settings are the defaults.
var settings = config{period: 5 * time.Second, grace: 50 * time.Second, startupGrace: time.Minute, rates: usual}

// node is ready, in the zone "a", and has the UID "<name>-1".
func node(name string, changes ...func(*corev1.Node)) *corev1.Node {
	return controllertest.Changed(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name + "-1"), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(at),
			Labels: map[string]string{corev1.LabelTopologyZone: "a"},
		},
	}, append([]func(*corev1.Node){ready(corev1.ConditionTrue)}, changes...)...)
}

func inZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
}

func excluded(n *corev1.Node) { n.Labels[excludeLabel] = "" }

// zoneNamed is the key of a zone.
func zoneNamed(name string) string { return ":\x00:" + name }

// pod is ready, on a node.
func pod(name, on string) *corev1.Pod {
	return controllertest.Pod("ns", name, controllertest.OnNode(on), controllertest.ReadySince(at))
}

// world is a controller whose passes and keys are worked on by calls. Its cache shows its writes at
// once.
type world struct {
	*controllertest.Env
	*lifecycleController
	silent map[string]bool // nodes that send no heartbeats
}

// newWorld makes a controller that has begun and has seen the objects.
func newWorld(t testing.TB, cfg config, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{Env: controllertest.New(t, objects...), silent: map[string]bool{}}
	w.build(t, cfg, objects...)
	w.start(t)
	return w
}

func (w *world) build(t testing.TB, cfg config, objects ...runtime.Object) {
	t.Helper()
	c := must.Get(newController(w.Env.Env, cfg))(t)
	// Leases are read live through informers of their own. The start of those that the handlers are at would show nodes
	// at any time.
	c.Informers = informerstest.NewScopeWithMetadata(t, c.Client, c.Metadata)
	w.lifecycleController = c
	w.Cache(t, objects...)
	for _, object := range objects {
		if n, ok := object.(*corev1.Node); ok {
			c.shown(reconcile.Backlog, n)
		}
	}
}

func (w *world) start(t testing.TB) {
	t.Helper()
	if err := w.begin(w.Context()); err != nil {
		t.Fatal(err)
	}
}

// succeed replaces the controller by a successor that has seen all there is, and has what its
// predecessor left, if anything.
func (w *world) succeed(t testing.TB, cfg config, left any) {
	t.Helper()
	w.Succeed(left)
	var objects []runtime.Object
	for _, n := range controllertest.AllStored[*corev1.Node](t, w.Env, "") {
		objects = append(objects, n)
	}
	w.build(t, cfg, objects...)
	w.start(t)
}

// show has the cache and the handlers see a node.
func (w *world) show(t testing.TB, n *corev1.Node) {
	t.Helper()
	w.Cache(t, n)
	w.shown(reconcile.Fresh, n)
}

// stored is a node as the API server has it.
func (w *world) stored(t testing.TB, name string) *corev1.Node {
	t.Helper()
	return controllertest.MustStored[*corev1.Node](t, w.Env, "", name)
}

// report has the kubelet of a node change its status, and the cache show it.
func (w *world) report(t testing.TB, name string, changes ...func(*corev1.Node)) {
	t.Helper()
	controllertest.Change(t, w.Env, "", name, append(changes, func(n *corev1.Node) {
		if c := conditionOf(n, corev1.NodeReady); c != nil {
			c.LastHeartbeatTime = metav1.NewTime(w.Env.Clock.Now())
		}
	})...)
	w.show(t, w.stored(t, name))
}

// renew has the Lease of a node renewed, which a watch shows.
func (w *world) renew(name string) {
	w.renewed(reconcile.Fresh, lease(name, "", w.Env.Clock.Now()))
}

// lease returns the Lease of a node.
func lease(name, version string, at time.Time) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(at)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name, ResourceVersion: version},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
	}
}

// work makes a pass, lets nodes through queues, and reconciles all keys until nothing changes.
func (w *world) work(t testing.TB) {
	t.Helper()
	w.pass(w.Context(), w.Context())
	w.grant()
	for range 2 {
		for _, n := range controllertest.AllStored[*corev1.Node](t, w.Env, "") {
			if err := w.reconcileNode(w.Context(), n.Name); err != nil {
				t.Error(err)
			}
			if err := w.markPodsOf(w.Context(), n.Name); err != nil {
				t.Error(err)
			}
			w.show(t, w.stored(t, n.Name))
		}
	}
}

// live lets time pass, in which nodes that are not silent renew their Leases every ten seconds, and
// passes follow each other.
func (w *world) live(t testing.TB, d time.Duration) {
	t.Helper()
	for passed := time.Duration(0); passed < d; passed += w.period {
		w.Env.Clock.Step(w.period)
		if passed/w.period%2 == 0 {
			for _, n := range controllertest.AllStored[*corev1.Node](t, w.Env, "") {
				if !w.silent[n.Name] {
					w.renew(n.Name)
				}
			}
		}
		w.work(t)
	}
}

// wait is a period in which one node renews its Lease, and the pass after it. No cache shows what that writes.
func (w *world) wait(renews string) {
	w.Env.Clock.Step(w.period)
	w.renew(renews)
	w.pass(w.Context(), w.Context())
}

// passAt makes a pass at a time after the beginning.
func (w *world) passAt(t testing.TB, after time.Duration) {
	t.Helper()
	w.Env.Clock.SetTime(at.Add(after))
	w.pass(w.Context(), w.Context())
}

// fall has nodes fall silent.
func (w *world) fall(names ...string) {
	for _, name := range names {
		w.silent[name] = true
	}
}

// evicted returns the names of the nodes with a taint that evicts pods.
func (w *world) evicted(t testing.TB) string {
	t.Helper()
	var all []string
	for _, n := range controllertest.AllStored[*corev1.Node](t, w.Env, "") {
		if isEvicting(n) {
			all = append(all, n.Name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (w *world) wantEvicted(t testing.TB, want string) {
	t.Helper()
	if got := w.evicted(t); got != want {
		t.Errorf("after %v %q have taints that evict pods, want %q", w.Env.Clock.Now().Sub(at), got, want)
	}
}

func (w *world) wantReady(t testing.TB, name string, want corev1.ConditionStatus) {
	t.Helper()
	if got := statusOf(w.stored(t, name)); got != want {
		t.Errorf("after %v Ready of %s is %q, want %q", w.Env.Clock.Now().Sub(at), name, got, want)
	}
}

// group makes count nodes of a zone.
func group(zone string, count int, changes ...func(*corev1.Node)) []runtime.Object {
	var all []runtime.Object
	for i := range count {
		all = append(all, node(fmt.Sprintf("%s%02d", zone, i), append(changes, inZone(zone))...))
	}
	return all
}

func namesOf(objects []runtime.Object) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.(*corev1.Node).Name)
	}
	return all
}

var podKey = types.NamespacedName{Namespace: "ns", Name: "p"}

var nodesResource = schema.GroupResource{Resource: "nodes"}
