package ttl

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func node(name string, annotation ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"example.com/other": "x"}}}
	for _, value := range annotation {
		n.Annotations[corev1.ObjectTTLAnnotationKey] = value
	}
	return n
}

// cluster makes nodes with the same annotation.
func cluster(count int, annotation ...string) []runtime.Object {
	var nodes []runtime.Object
	for n := range count {
		nodes = append(nodes, node(fmt.Sprintf("node-%d", n), annotation...))
	}
	return nodes
}

// fixture is a controller that has begun and that does not work on its queue.
func fixture(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *ttlController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	if err := c.begin(env.Context()); err != nil {
		t.Fatal(err)
	}
	env.Fake.ClearActions()
	return env, c
}

func TestReconcile(t *testing.T) {
	const patched = `{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"0"}}}`
	for name, tc := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"TTL-8, TTL-12: no annotation":            {node("node"), patched},
		"TTL-8, TTL-12: another value":            {node("node", "15"), patched},
		"TTL-8, TTL-12: not a number":             {node("node", "soon"), patched},
		"TTL-12, TTL-18: the value":               {node("node", "0"), ""},
		"TTL-12, TTL-18: a number of equal value": {node("node", "+00"), ""},
		"TTL-12: no such node":                    {node("another", "0"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.node)
			if err := c.reconcile(env.Context(), "node"); err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				env.WantRequests(t)
				return
			}
			patch := env.Fake.Actions()[0].(clienttesting.PatchActionImpl)
			if string(patch.Patch) != tc.want || patch.PatchType != types.StrategicMergePatchType || patch.Subresource != "" {
				t.Errorf("sent %s as %s", patch.Patch, patch.PatchType)
			}
			env.WantRequests(t, "patch nodes node")
			env.WantEvents(t)
		})
	}
}

// Pins TTL-2, TTL-9, TTL-12 and TTL-13.
func TestARefusedPatchIsRetriedWithoutAnEvent(t *testing.T) {
	env := controllertest.New(t, node("node"))
	env.RefuseIf("patch nodes node", errors.New("boom"), func(n int) bool { return n == 1 })
	run(t, env)
	env.EventuallyAsTimePasses(t, "the node is patched", 1e9, func() bool { return annotations(t, env, 1, "0") })
	if verbs := env.WriteVerbs(); !slices.Equal(verbs, []string{"patch", "patch"}) {
		t.Errorf("sent %q", verbs)
	}
	if got := env.Series(t, "workqueue_retries_total"); !slices.Equal(got, []string{"name=ttlcontroller 1"}) {
		t.Errorf("retries are %q", got)
	}
	env.WantEvents(t)
}

// run runs a controller.
func run(t testing.TB, env *controllertest.Env) (stop func()) {
	t.Helper()
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	return env.Run(t, c)
}

// annotations reports whether count nodes exist and all of them have an annotation.
func annotations(t testing.TB, env *controllertest.Env, count int, want string) bool {
	t.Helper()
	list, err := env.Fake.CoreV1().Nodes().List(env.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Annotations[corev1.ObjectTTLAnnotationKey] != want {
			return false
		}
	}
	return len(list.Items) == count
}

// Pins TTL-6, TTL-14 and TTL-23.
func TestNodesFollowAtTheirNextUpdate(t *testing.T) {
	env := controllertest.New(t, cluster(100, "0")...)
	run(t, env)
	env.AwaitIdle(t)
	nodes := env.Fake.CoreV1().Nodes()
	if _, err := nodes.Create(env.Context(), node("new"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	shown := func(name string) string {
		n, err := nodes.Get(env.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n.Annotations[corev1.ObjectTTLAnnotationKey]
	}
	controllertest.Eventually(t, "the new node is annotated", func() bool { return shown("new") == "15" })
	env.AwaitIdle(t)
	if got := shown("node-7"); got != "0" {
		t.Errorf("a node that nothing happened to shows %s", got)
	}
	heartbeat := node("node-7", "0")
	heartbeat.Status.Phase = corev1.NodeRunning
	if _, err := nodes.Update(env.Context(), heartbeat, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the node that was updated follows", func() bool { return shown("node-7") == "15" })
	env.AwaitIdle(t)
	patches := slices.DeleteFunc(env.WriteVerbs(), func(verb string) bool { return verb != "patch" })
	if len(patches) != 2 {
		t.Errorf("%d patches for two nodes", len(patches))
	}
}

// Another tool writes its own value back each time: so is ours, without an end and without a delay. Pins TTL-21.
func TestAnAnnotationThatIsTakenBackIsWrittenAgain(t *testing.T) {
	env := controllertest.New(t, node("node", "0"))
	run(t, env)
	env.AwaitIdle(t)
	for range 5 {
		env.Store(t, node("node", "7"))
		controllertest.Eventually(t, "the value is written again", func() bool { return annotations(t, env, 1, "0") })
	}
	if verbs := env.WriteVerbs(); !slices.Equal(verbs, []string{"patch", "patch", "patch", "patch", "patch"}) {
		t.Errorf("sent %q", verbs)
	}
}

// handlers are those of a controller, which a test calls.
func handlers(t *testing.T) (*ttlController, cache.ResourceEventHandler) {
	t.Helper()
	env := controllertest.New(t)
	c := must.Get(newController(env.Env))(t)
	nodes := &controllertest.Captured{SharedIndexInformer: env.Informers.Core().V1().Nodes().Informer()}
	c.watch(nodes)
	return c, nodes.Handler
}

// Pins TTL-5, TTL-6, TTL-7, TTL-19, TTL-20, TTL-25 and TTL-26.
func TestWatch(t *testing.T) {
	c, watched := handlers(t)
	watched.OnAdd(node("a"), true)
	watched.OnAdd("no node", true)
	watched.OnAdd(node("b"), false)
	watched.OnDelete("no node")
	if c.size.count != 2 || c.loop.Inspect().Depth != 2 {
		t.Fatalf("%d counted, %d queued", c.size.count, c.loop.Inspect().Depth)
	}
	if _, known := c.size.seconds(); known {
		t.Error("the value is known before all nodes are counted")
	}
	watched.OnUpdate(node("c"), node("c", "0")) // nobody knows yet whether that is right
	c.size.begin(nil)
	watched.OnUpdate(node("d", "0"), node("d", "0")) // right
	watched.OnUpdate(node("e", "0"), node("e", "0"))
	if queued := c.loop.Inspect().Depth; queued != 3 {
		t.Errorf("%d queued, want a, b, c", queued)
	}
	resynced := node("e", "15")
	watched.OnUpdate(resynced, resynced)
	if queued := c.loop.Inspect().Depth; queued != 4 {
		t.Errorf("%d queued, want also that whose annotation is wrong", queued)
	}
	watched.OnDelete(cache.DeletedFinalStateUnknown{Key: "b", Obj: node("b")})
	watched.OnDelete(cache.DeletedFinalStateUnknown{Key: "x", Obj: "no node"})
	if c.size.count != 1 || c.loop.Inspect().Depth != 4 {
		t.Errorf("%d counted, %d queued after one was deleted", c.size.count, c.loop.Inspect().Depth)
	}
}

// Pins TTL-22, TTL-23 and TTL-25.
func TestEachNodeIsPatchedOnceAndARestartPatchesNone(t *testing.T) {
	env := controllertest.New(t, cluster(101)...)
	stop := run(t, env)
	controllertest.Eventually(t, "nodes are annotated", func() bool { return annotations(t, env, 101, "15") })
	stop()
	if patches := len(env.Writes()); patches != 101 {
		t.Errorf("%d writes for 101 nodes", patches)
	}

	shrunk := controllertest.New(t, cluster(95, "15")...)
	run(t, shrunk)
	shrunk.AwaitIdle(t)
	if writes := shrunk.Writes(); len(writes) != 0 {
		t.Errorf("a new instance sent %v", writes)
	}
}

// Pins TTL-1, TTL-4, TTL-9 and TTL-13.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "ttl-controller" || !slices.Equal(d.Aliases, []string{"ttl"}) || d.ServiceAccount != "ttl-controller" || d.Gate != "" || d.EventSource != "" {
		t.Errorf("described as %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if on, why := d.Enabled(cfg); !on {
		t.Errorf("not enabled: %s", why)
	}
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*ttlController).loop.Inspect(); s.Workers != 5 || s.Queue != "ttlcontroller" {
		t.Errorf("loop: %+v", s)
	}
}

// A heartbeat of a node whose annotation is right costs no allocation.
func BenchmarkHeartbeat(b *testing.B) {
	_, c := fixture(b, cluster(1000, "30")...)
	n := node("node-0", "30")
	b.ReportAllocs()
	for b.Loop() {
		if seconds, known := c.size.seconds(); !known || !shows(n, seconds) {
			b.Fatal("would be queued")
		}
	}
}
