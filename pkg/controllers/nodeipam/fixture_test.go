package nodeipam

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var at = controllertest.Epoch

// single has four blocks, dual four and two.
var (
	single = config{clusters: [2]clusterRange{{"10.0.0.0/22", 24}}}
	dual   = config{clusters: [2]clusterRange{{"10.0.0.0/22", 24}, {"fd00::/63", 64}}}
	large  = config{clusters: [2]clusterRange{{"10.0.0.0/8", 24}, {"fd00::/48", 64}}}
)

// node has the UID "<name>-1", and podCIDRs.
func node(name string, cidrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-1"), ResourceVersion: "1"}}
	if len(cidrs) > 0 {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = cidrs[0], cidrs
	}
	return n
}

func terminating(n *corev1.Node) *corev1.Node {
	n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: at}, []string{"example.com/hold"}
	return n
}

// again is a node of the same name that was created later.
func again(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.UID, n.ResourceVersion, n.Spec = n.UID+"-again", "2", corev1.NodeSpec{}
	return n
}

// world is a controller whose caches, handlers and keys are moved by the test.
type world struct {
	*controllertest.Env
	*ipamController
	queued *controllertest.Queue[string]
}

func newWorld(t testing.TB, cfg config, nodes ...*corev1.Node) *world {
	t.Helper()
	var objects []runtime.Object
	for _, n := range nodes {
		objects = append(objects, n)
	}
	w := &world{Env: controllertest.New(t, objects...)}
	w.build(t, cfg)
	for _, n := range nodes {
		w.show(t, nil, n)
	}
	return w
}

func (w *world) build(t testing.TB, cfg config) {
	t.Helper()
	c := must.Get(newController(w.Env.Env, cfg))(t)
	w.ipamController = c
}

// Queue puts a queue that records in the place of the loop.
func (w *world) Queue(t testing.TB) {
	t.Helper()
	w.queued = &controllertest.Queue[string]{}
	w.queue, w.ranges.retry = w.queued, w.queued.Add
}

// succeed replaces the controller by a successor whose handlers have been shown the cache.
func (w *world) succeed(t testing.TB, cfg config, cached ...*corev1.Node) {
	t.Helper()
	w.Succeed(w.HandOver())
	w.build(t, cfg)
	for _, n := range cached {
		w.show(t, nil, n)
	}
	w.takeOver()
}

// show has the cache and the handlers see a node; old is nil for a new one.
func (w *world) show(t testing.TB, old, n *corev1.Node) {
	t.Helper()
	w.Cache(t, n)
	if old == nil {
		w.seen(reconcile.Fresh, n)
	} else {
		w.updated(reconcile.Fresh, old, n)
	}
}

// vanish has the cache and the handlers see that a node is gone.
func (w *world) vanish(t testing.TB, n *corev1.Node) {
	t.Helper()
	w.Uncache(t, n)
	w.ranges.gone(incarnationOf(n))
}

// lack has the cache and the handlers see a list that lacks a node, which need not be gone.
func (w *world) lack(t testing.TB, n *corev1.Node) {
	t.Helper()
	w.Uncache(t, n)
	var nodes controllertest.Captured
	w.watch(&nodes)
	nodes.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: n.Name, Obj: n})
}

// allot reconciles a node and returns the podCIDRs that the API server has of it.
func (w *world) allot(t testing.TB, name string) string {
	t.Helper()
	if err := w.reconcile(w.Context(), name); err != nil {
		return err.Error()
	}
	return w.podCIDRs(t, name)
}

func (w *world) podCIDRs(t testing.TB, name string) string {
	t.Helper()
	n, ok := controllertest.Stored[*corev1.Node](t, w.Env, "", name)
	if !ok {
		return "none"
	}
	return fmt.Sprint(n.Spec.PodCIDRs)
}

func wantCIDRs(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("podCIDRs are %s, want %s", got, want)
	}
}

func prefix(cidr string) netip.Prefix { return netip.MustParsePrefix(cidr) }
