package tainteviction

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins TAINT-40.
func TestASuccessorContinuesAppointments(t *testing.T) {
	for name, tc := range map[string]struct {
		later time.Duration
		node  *corev1.Node
		want  time.Duration // -1 for none
	}{
		"TAINT-40: the same second":                      {time.Second, node(taint("a")), 49 * time.Second},
		"TAINT-40: the taint is gone":                    {time.Second, node(), -1},
		"TAINT-40: nobody watched for too long":          {11 * time.Second, node(taint("a")), time.Minute},
		"TAINT-40: nobody watched, but the API has time": {11 * time.Second, node(taint("a", epoch)), 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			pod := tolerating(tolerates("a", 60))
			env, c := fixture(t, node(taint("a")), pod)
			env.Clock.Step(10 * time.Second)
			left := c.HandOver()
			env.Clock.Step(tc.later)
			env.Succeed(left)
			successor := begun(t, env, tc.node, pod)
			if tc.want < 0 {
				wantNothingPending(t, env, successor)
				env.WantEvents(t, cancelling)
				return
			}
			wantPending(t, env, successor, tc.want)
			env.WantEvents(t)
		})
	}
}

// Pins TAINT-7, TAINT-8, TAINT-35, TAINT-45 and TAINT-46.
func TestWatch(t *testing.T) {
	env := controllertest.New(t, node(taint("a")), tolerating(tolerates("a")))
	c := must.Get(newController(env.Env, config{separate: true}))(t)
	env.Start(t)
	queued := func() (nodes, pods int) { return c.nodeLoop.Inspect().Depth, c.podLoop.Inspect().Depth }
	want := func(what string, nodes, pods int) {
		t.Helper()
		if n, p := queued(); n != nodes || p > pods {
			t.Errorf("%s: %d nodes and %d pods are queued, want %d and %d", what, n, p, nodes, pods)
		}
	}
	want("at the beginning", 1, 1)
	other := tolerating()
	other.Name, other.Spec.NodeName = "unscheduled", ""
	c.enqueue(reconcile.Fresh, other)
	other.Spec.NodeName = "unknown"
	c.enqueue(reconcile.Fresh, other)
	want("pods that do not matter", 1, 1)
	other.Spec.NodeName = "node"
	c.enqueue(reconcile.Fresh, other)
	if _, pods := queued(); pods == 0 {
		t.Error("a pod on a node with taints is not queued")
	}
}

// A cluster that was restored from a backup has a pod as it was before its eviction. Pins TAINT-56.
func TestARestoredPodIsEvictedAgain(t *testing.T) {
	env, c := evicted(t)
	pods, queued := &controllertest.Captured{}, &controllertest.Queue[types.NamespacedName]{}
	c.watch(pods, &controllertest.Captured{})
	c.podQueue = queued
	if err := c.evict(env.Context(), podIdentity); err != nil {
		t.Fatal(err)
	}
	before := tolerating(tolerates("a", 60))
	ending := controllertest.Changed(before.DeepCopy(), controllertest.Terminating)
	pods.Handler.OnUpdate(before, ending)
	queued.Want(t)
	before.ResourceVersion = "1"
	pods.Handler.OnUpdate(ending, before)
	queued.Want(t, "ns/pod")
	podChanged(t, env, c, before)
	wantPending(t, env, c, time.Minute)
}

func TestSameNoExecute(t *testing.T) {
	valued := taint("a")
	valued.Value = "x"
	soft := corev1.Taint{Key: "s", Effect: corev1.TaintEffectNoSchedule}
	for name, tc := range map[string]struct {
		old, new *corev1.Node
		want     bool
	}{
		"TAINT-8: none":                 {node(), node(), true},
		"TAINT-8, TAINT-35: others":     {node(taint("a")), node(soft, taint("a")), true},
		"TAINT-8: added":                {node(), node(taint("a")), false},
		"TAINT-8: removed":              {node(taint("a")), node(soft), false},
		"TAINT-8: another value":        {node(taint("a")), node(valued), false},
		"TAINT-8: another order":        {node(taint("a"), taint("b")), node(taint("b"), taint("a")), false},
		"TAINT-8, TAINT-35: time added": {node(taint("a")), node(taint("a", epoch)), false},
	} {
		if got := sameNoExecute(tc.old, tc.new); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// Pins TAINT-14, TAINT-18, TAINT-20, TAINT-41, TAINT-42 and TAINT-45.
func TestPodsAreEvictedWhenTheirTimeHasCome(t *testing.T) {
	now, later, never := tolerating(), tolerating(tolerates("a", 60)), tolerating(tolerates("a"))
	for name, pod := range map[string]*corev1.Pod{"now": now, "later": later, "never": never} {
		pod.Name, pod.UID = name, types.UID(name)
	}
	env := controllertest.New(t, node(), now, later, never)
	c := running(t, env)
	env.RefuseIf("delete pods", errors.New("boom"), func(n int) bool { return n == 1 })
	if _, err := env.Fake.CoreV1().Nodes().Update(env.Context(), node(taint("a")), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := func(name string) func() bool {
		return func() bool {
			_, err := env.Fake.CoreV1().Pods("ns").Get(env.Context(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}
	}
	controllertest.Eventually(t, "the other pod is to be evicted", func() bool {
		return c.appointments.has(types.NamespacedName{Namespace: "ns", Name: "later"})
	})
	env.EventuallyAsTimePasses(t, "the first pod is deleted at the second attempt", 100*time.Millisecond, gone("now"))
	if gone("later")() {
		t.Error("a pod was deleted before its time")
	}
	env.EventuallyAsTimePasses(t, "the second pod is deleted", 10*time.Second, gone("later"))
	env.AwaitIdle(t)
	if gone("never")() {
		t.Error("a pod was deleted that tolerates the taint")
	}
	if verbs := env.WriteVerbs(); !slices.Equal(verbs, []string{"update", "patch", "delete", "patch", "delete", "patch", "delete"}) &&
		!slices.Equal(verbs, []string{"update", "patch", "delete", "delete", "patch", "delete"}) { // if the cache showed the first patch
		t.Errorf("sent %q", verbs)
	}
}

// Pins TAINT-1, TAINT-2, TAINT-3, TAINT-6, TAINT-9 and TAINT-11.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "taint-eviction-controller" || len(d.Aliases) != 0 || d.ServiceAccount != "node-controller" || d.EventSource != "taint-eviction-controller" {
		t.Errorf("described as %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if on, why := d.Enabled(cfg); !on {
		t.Errorf("not enabled: %s", why)
	}
	without := d.Value(cfg)
	cfg = v1beta1.NewDefault()
	cfg.FeatureGates = map[string]bool{"TaintTolerationComparisonOperators": true}
	if d.Value(cfg) == without {
		t.Error("the gate of the operators makes no difference")
	}
	env := controllertest.New(t)
	c := must.Get(d.New(env.Env, without))(t)
	typed := c.(*evictionController)
	if got := typed.nodeLoop.Inspect().Queue; got != "noexec_taint_node" {
		t.Errorf("queue %s", got)
	}
	if got := typed.podLoop.Inspect().Queue; got != "noexec_taint_pod" {
		t.Errorf("queue %s", got)
	}
	if _, ok := env.Informers.Core().V1().Pods().Informer().GetIndexer().GetIndexers()["spec.nodeName"]; !ok {
		t.Error("pods are not indexed by node")
	}
}

// Pins NLC-90 and TAINT-49.
func TestWithoutTheGateNothingIsEvictedWithoutNodeLifecycle(t *testing.T) {
	for name, tc := range map[string]struct {
		gate, lifecycle, want bool
	}{
		"both":               {gate: true, lifecycle: true, want: true},
		"the gate":           {gate: true, want: true},
		"the controller":     {lifecycle: true, want: true},
		"neither of the two": {},
	} {
		t.Run(name, func(t *testing.T) {
			d, cfg := Descriptor(), v1beta1.NewDefault()
			cfg.EmulatedVersion, cfg.FeatureGates = "1.33", map[string]bool{"SeparateTaintEvictionController": tc.gate}
			cfg.Controllers.NodeLifecycle.Enabled = ptr.To(tc.lifecycle)
			if on, why := d.Enabled(cfg); !on {
				t.Errorf("not enabled: %s", why)
			}
			c, err := d.New(controllertest.New(t).Env, d.Value(cfg))
			if err != nil || (c != nil) != tc.want {
				t.Errorf("built %v, error %v", c, err)
			}
		})
	}
}

// Evictions wait for the end of a pause, and taints are followed meanwhile. Pins TAINT-50.
func TestAnEvictionFromAPausedNamespaceCanBeCancelled(t *testing.T) {
	env := controllertest.New(t, node(), tolerating(tolerates("b", 60)))
	c := running(t, env)
	env.Pauses.Set([]string{"ns"})
	taintWith := func(taints ...corev1.Taint) {
		t.Helper()
		if _, err := env.Fake.CoreV1().Nodes().Update(env.Context(), node(taints...), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	taintWith(taint("a"))
	controllertest.Eventually(t, "the eviction is held back", func() bool { return c.evictions.Inspect().Held == 1 })
	taintWith(taint("b"))
	controllertest.Eventually(t, "the eviction is postponed", func() bool {
		in, ok := pending(env, c)
		return ok && in == time.Minute
	})
	env.Pauses.Set(nil)
	controllertest.Eventually(t, "the eviction is let go", func() bool { return c.evictions.Inspect().Held == 0 })
	env.AwaitIdle(t)
	env.WantEvents(t)
	wantPending(t, env, c, time.Minute)
	env.Pauses.Set([]string{"ns"})
	taintWith()
	controllertest.Eventually(t, "the eviction is cancelled", func() bool { return !c.appointments.has(podKey) })
	env.Pauses.Set(nil)
	env.AwaitIdle(t)
	if verbs := env.WriteVerbs(); !slices.Equal(verbs, []string{"update", "update", "update"}) {
		t.Errorf("sent %q", verbs)
	}
}

// A worker judges a pod when another one has done so since it began. Pins TAINT-54.
func TestAJudgementThatBeganBeforeTheAppointmentKeepsIt(t *testing.T) {
	env, c := fixture(t, node(), tolerating(tolerates("a", 60)))
	began := env.Clock.Now()
	env.Clock.Step(time.Second)
	nodeChanged(t, env, c, node(taint("a")))
	wantPending(t, env, c, time.Minute)
	env.Clock.Step(time.Second)
	if err := c.judgePod(env.Context(), podKey, began, sinceNow); err != nil {
		t.Fatal(err)
	}
	wantPending(t, env, c, 59*time.Second)
	env.WantEvents(t)
}
