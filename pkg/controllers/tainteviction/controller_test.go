package tainteviction

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// Pins TAINT-15, TAINT-19 and TAINT-35.
func TestTaintsComeAndGo(t *testing.T) {
	env, c := fixture(t, node(), tolerating(tolerates("a", 60), tolerates("b", 10)))
	wantNothingPending(t, env, c)
	nodeChanged(t, env, c, node(taint("a")))
	wantPending(t, env, c, time.Minute)
	env.Clock.Step(9 * time.Second)
	nodeChanged(t, env, c, node(taint("a"), taint("b")))
	wantPending(t, env, c, 51*time.Second)
	env.WantEvents(t)
	nodeChanged(t, env, c, node(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}))
	wantNothingPending(t, env, c)
	env.WantEvents(t, cancelling)
	nodeChanged(t, env, c, node())
	env.WantEvents(t)
	nodeChanged(t, env, c, node(taint("b")))
	wantPending(t, env, c, 10*time.Second)
	env.WantRequests(t)
}

// Pins TAINT-15 and TAINT-27.
func TestPodsOfANodeThatIsGoneKeepTheirAppointments(t *testing.T) {
	env, c := fixture(t, node(taint("a")), tolerating(tolerates("a", 60)))
	env.Clock.Step(10 * time.Second)
	env.Uncache(t, node())
	if err := c.reconcileNode(env.Context(), "node"); err != nil {
		t.Fatal(err)
	}
	podChanged(t, env, c, tolerating(tolerates("a")))
	wantPending(t, env, c, 50*time.Second)
	env.WantEvents(t)
	nodeChanged(t, env, c, node())
	wantNothingPending(t, env, c)
	env.WantEvents(t, cancelling)
}

func TestPodItems(t *testing.T) {
	unscheduled := tolerating()
	unscheduled.Spec.NodeName = ""
	for name, tc := range map[string]struct {
		taints []corev1.Taint
		pod    *corev1.Pod
		want   time.Duration // -1 for no appointment
	}{
		"TAINT-16: not scheduled":                  {[]corev1.Taint{taint("a")}, unscheduled, -1},
		"TAINT-16: on a node without taints":       {nil, tolerating(), -1},
		"TAINT-16: tolerates nothing":              {[]corev1.Taint{taint("a")}, tolerating(), 0},
		"TAINT-16: tolerates for some time":        {[]corev1.Taint{taint("a")}, tolerating(tolerates("a", 7)), 7 * time.Second},
		"TAINT-16: tolerates":                      {[]corev1.Taint{taint("a")}, tolerating(tolerates("a")), -1},
		"TAINT-16: tolerates something else":       {[]corev1.Taint{taint("a")}, tolerating(tolerates("b")), 0},
		"TAINT-16: other effects matter to others": {[]corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}, tolerating(), -1},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, node(tc.taints...))
			podChanged(t, env, c, tc.pod)
			if tc.want < 0 {
				wantNothingPending(t, env, c)
				return
			}
			wantPending(t, env, c, tc.want)
			if made := c.appointments.state()[podKey]; made.isImmediate() != (tc.want == 0) {
				t.Errorf("made %+v", made)
			}
		})
	}
}

// Pins TAINT-17c, TAINT-17d and TAINT-17e.
func TestTolerationsChange(t *testing.T) {
	env, c := fixture(t, node(taint("a")))
	podChanged(t, env, c, tolerating(tolerates("a")))
	wantNothingPending(t, env, c)
	podChanged(t, env, c, tolerating(tolerates("a", 60)))
	wantPending(t, env, c, time.Minute)
	env.Clock.Step(time.Second)
	podChanged(t, env, c, tolerating(tolerates("a", 600)))
	wantPending(t, env, c, 59*time.Second)
	podChanged(t, env, c, tolerating(tolerates("a")))
	wantNothingPending(t, env, c)
	env.WantEvents(t, cancelling)
	podChanged(t, env, c, tolerating(tolerates("a", 60)))
	podChanged(t, env, c, tolerating())
	wantPending(t, env, c, 0)
	env.WantEvents(t, cancelling)
}

// Pins TAINT-16, TAINT-23 and TAINT-42.
func TestAnAppointmentIsWithOnePod(t *testing.T) {
	env, c := fixture(t, node(taint("a")), tolerating(tolerates("a", 60)))
	env.Clock.Step(10 * time.Second)
	another := tolerating(tolerates("a", 60))
	another.UID = "another"
	podChanged(t, env, c, another)
	wantPending(t, env, c, time.Minute)
	env.WantEvents(t, cancelling)
	env.Clock.Step(55 * time.Second)
	if err := c.evict(env.Context(), identity{podKey, "pod"}); err != nil {
		t.Fatal(err)
	}
	wantPending(t, env, c, 5*time.Second)
	env.WantRequests(t)

	env.Uncache(t, another)
	if err := c.reconcilePod(env.Context(), podKey); err != nil {
		t.Fatal(err)
	}
	wantNothingPending(t, env, c)
	env.WantEvents(t, cancelling)
}

// evicted is a fixture with a pod that is due.
func evicted(t *testing.T, change ...func(*corev1.Pod)) (*controllertest.Env, *evictionController) {
	t.Helper()
	pod := controllertest.Changed(tolerating(tolerates("a", 60)), change...)
	env, c := fixture(t, node(taint("a")), pod)
	env.Clock.Step(90 * time.Second)
	return env, c
}

var podIdentity = identity{podKey, "pod"}

// Pins TAINT-10, TAINT-20, TAINT-22, TAINT-23, TAINT-24 and TAINT-42.
func TestEvict(t *testing.T) {
	env, c := evicted(t, func(p *corev1.Pod) { p.Generation = 3 })
	if err := c.evict(env.Context(), podIdentity); err != nil {
		t.Fatal(err)
	}
	actions := env.Fake.Actions()
	env.WantRequests(t, "patch pods/status pod", "delete pods pod")
	want := `{"metadata":{"uid":"pod"},"status":{"conditions":[{"type":"DisruptionTarget","observedGeneration":3,"status":"True","lastProbeTime":null,` +
		`"lastTransitionTime":"2026-01-02T03:05:35Z","reason":"DeletionByTaintManager","message":"Taint manager: deleting due to NoExecute taint"}]}}`
	if patch := actions[0].(clienttesting.PatchActionImpl); string(patch.Patch) != want || patch.PatchType != types.StrategicMergePatchType {
		t.Errorf("patched with %s", patch.Patch)
	}
	options := actions[1].(clienttesting.DeleteActionImpl).DeleteOptions
	if options.GracePeriodSeconds != nil || *options.Preconditions.UID != "pod" || options.Preconditions.ResourceVersion != nil {
		t.Errorf("deleted with %+v", options)
	}
	env.WantEvents(t, marking)
	wantNothingPending(t, env, c)
	if got := env.Series(t, "taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("deletions are %q", got)
	}
	families, err := env.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "taint_eviction_controller_pod_deletion_duration_seconds" {
			continue
		}
		h := family.Metric[0].GetHistogram()
		var bounds []float64
		for _, bucket := range h.Bucket {
			bounds = append(bounds, bucket.GetUpperBound())
		}
		if h.GetSampleSum() != 30 || !slices.Equal(bounds[:12], []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240}) {
			t.Errorf("duration is %v, in %v", h.GetSampleSum(), bounds)
		}
	}
}

func TestConditionFor(t *testing.T) {
	earlier := metav1.NewTime(epoch.Add(-time.Hour))
	has := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: earlier,
	}
	for name, tc := range map[string]struct {
		change func(*corev1.PodCondition)
		want   bool
		since  metav1.Time
	}{
		"TAINT-22: it has the condition":         {func(*corev1.PodCondition) {}, false, earlier},
		"TAINT-22: of another generation":        {func(c *corev1.PodCondition) { c.ObservedGeneration = 7 }, false, earlier},
		"TAINT-22, TAINT-48: for another reason": {func(c *corev1.PodCondition) { c.Reason = "PreemptionByScheduler" }, true, earlier},
		"TAINT-22: with another message":         {func(c *corev1.PodCondition) { c.Message = "x" }, true, earlier},
		"TAINT-20: probed":                       {func(c *corev1.PodCondition) { c.LastProbeTime = earlier }, true, earlier},
		"TAINT-22: not true":                     {func(c *corev1.PodCondition) { c.Status = corev1.ConditionFalse }, true, metav1.NewTime(epoch)},
		"TAINT-22: another condition, not this":  {func(c *corev1.PodCondition) { c.Type = corev1.PodReady }, true, metav1.NewTime(epoch)},
	} {
		t.Run(name, func(t *testing.T) {
			condition := has
			tc.change(&condition)
			pod := tolerating()
			pod.Status.Conditions = []corev1.PodCondition{condition}
			want := conditionFor(pod, epoch)
			want.LastTransitionTime = tc.since
			patch, err := pods.DisruptionPatch(pod, conditionFor(pod, epoch))
			if expected, _ := json.Marshal(want); err != nil || (patch != nil) != tc.want || tc.want && !strings.Contains(string(patch), string(expected)) {
				t.Errorf("got %s, %v", patch, err)
			}
		})
	}
}

// Pins TAINT-41.
func TestFailuresAreRetriedUntilTheyNeedNotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		request       string
		answer        error
		retry, failed bool
		requests      []string
	}{
		"TAINT-41: the patch fails": {"patch pods/status pod", errors.New("boom"), true, true, []string{"patch pods/status pod"}},
		"TAINT-52: the pod is gone": {"delete pods pod", apierrors.NewNotFound(corev1.Resource("pods"), "pod"), false, false,
			[]string{"patch pods/status pod", "delete pods pod"}},
		"TAINT-42: another pod has its name": {"delete pods pod", apierrors.NewConflict(corev1.Resource("pods"), "pod", errors.New("uid")), true, false,
			[]string{"patch pods/status pod", "delete pods pod"}},
		"TAINT-41: the deletion fails": {"delete pods pod", errors.New("boom"), true, true, []string{"patch pods/status pod", "delete pods pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := evicted(t)
			env.Refuse(tc.request, tc.answer)
			err := c.evict(env.Context(), podIdentity)
			if (err != nil) != tc.retry || err != nil && reconcile.IsExpected(err) == tc.failed {
				t.Errorf("got %v", err)
			}
			env.WantRequests(t, tc.requests...)
			env.WantEvents(t, marking)
			if _, ok := pending(env, c); !ok {
				t.Error("nothing is pending")
			}
			if got := env.Series(t, "taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"0"}) {
				t.Errorf("deletions are %q", got)
			}
			_ = c.evict(env.Context(), podIdentity)
			env.WantEvents(t) // announced once
		})
	}
}

// The API server may say so because of an admission webhook: the cache shows whether a pod is gone. Pins TAINT-52.
func TestAWriteDoesNotProveThatAPodIsGone(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "pod")
	for _, request := range []string{"patch pods/status pod", "delete pods pod"} {
		for name, isGone := range map[string]bool{"it is there": false, "it is gone": true} {
			t.Run(request+": "+name, func(t *testing.T) {
				env := controllertest.New(t, node(taint("a")), tolerating())
				c, err := newController(env.Env, config{separate: true})
				if err != nil {
					t.Fatal(err)
				}
				env.RefuseIf(request, gone, func(n int) bool {
					if n == 1 && isGone {
						env.Remove(t, tolerating())
					}
					return n == 1
				})
				env.Start(t)
				env.Run(t, c)
				controllertest.Eventually(t, "a write is refused", func() bool { return c.evictions.Inspect().Reconciled == 1 })
				if isGone {
					controllertest.Eventually(t, "nothing is pending", func() bool { return !c.appointments.has(podKey) })
				}
				env.Requests()
				env.EventuallyAsTimePasses(t, "the pod is looked at again", time.Second, func() bool { return c.evictions.Inspect().Reconciled == 2 })
				if took := env.Clock.Since(epoch); took < reconcile.RecheckAfter {
					t.Errorf("it is looked at again after %v", took)
				}
				_, stored := controllertest.Stored[*corev1.Pod](t, env, "ns", "pod")
				if writes := env.WriteVerbs(); stored || isGone != (len(writes) == 0) {
					t.Errorf("stored is %v after %q", stored, writes)
				}
				env.WantEvents(t, marking)
				wantNothingPending(t, env, c)
			})
		}
	}
}

// Pins TAINT-41 and TAINT-45.
func TestWhatIsCancelledBetweenAttemptsIsNotTriedAgain(t *testing.T) {
	env, c := evicted(t)
	env.Refuse("patch pods/status pod", errors.New("boom"))
	if err := c.evict(env.Context(), podIdentity); err == nil {
		t.Fatal("succeeded")
	}
	nodeChanged(t, env, c, node())
	env.WantEvents(t, marking, cancelling)
	env.Fake.ClearActions()
	if err := c.evict(env.Context(), podIdentity); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t)
}

// Pins TAINT-44.
func TestAPodThatIsGoneBecauseOfItsEvictionIsNotAnnouncedAsKept(t *testing.T) {
	env, c := evicted(t)
	env.Intercept("delete pods pod", func(clienttesting.Action) error {
		env.Uncache(t, tolerating())
		return c.reconcilePod(env.Context(), podKey)
	})
	if err := c.evict(env.Context(), podIdentity); err != nil {
		t.Fatal(err)
	}
	env.WantEvents(t, marking)
	wantNothingPending(t, env, c)
}

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
	c, err := newController(env.Env, config{separate: true})
	if err != nil {
		t.Fatal(err)
	}
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
	c, err := newController(env.Env, config{separate: true})
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Run(t, c)
	env.AwaitIdle(t)
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
	c, err := d.New(env.Env, without)
	if err != nil {
		t.Fatal(err)
	}
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
	c, err := newController(env.Env, config{separate: true})
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Run(t, c)
	env.AwaitIdle(t)
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

// The breaker is not asked for what is not to be deleted, or not yet. Pins TAINT-51.
func TestOnlyWhatIsDueIsCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		change  *corev1.Pod
		stopped bool
	}{
		"it is due":           {tolerating(), true},
		"it was postponed":    {tolerating(tolerates("a", 600)), false},
		"it was cancelled":    {tolerating(tolerates("a")), false},
		"it is another one's": {controllertest.Changed(tolerating(), func(p *corev1.Pod) { p.UID = "another" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, node(taint("a")), tolerating())
			breaker := &controllertest.Breaker{}
			c.Deletions = controller.DeletionsBy("c", breaker)
			breaker.Stop(corev1.Resource("pods"))
			podChanged(t, env, c, tc.change)
			_, stopped := controller.StoppedIn(c.evict(env.Context(), podIdentity))
			if stopped != tc.stopped {
				t.Errorf("stopped is %v", stopped)
			}
			env.WantRequests(t)
			env.WantEvents(t)
		})
	}
}

// An eviction that the breaker has stopped is neither announced nor begun.
func TestAnEvictionWaitsUntilPodsMayBeDeleted(t *testing.T) {
	env := controllertest.New(t, node(taint("a")), tolerating())
	breaker := &controllertest.Breaker{}
	env.Deletions = controller.DeletionsBy("c", breaker)
	breaker.Stop(corev1.Resource("pods"))
	c, err := newController(env.Env, config{separate: true})
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Run(t, c)
	// The pod is judged for itself, too: after its eviction, it would be evicted again while the cache still shows it.
	controllertest.Eventually(t, "the eviction is held back", func() bool {
		return c.evictions.Inspect().Stopped == 1 && env.Idle()
	})
	if verbs, events := env.WriteVerbs(), len(env.Events.Events); len(verbs) != 0 || events != 0 {
		t.Errorf("sent %q and %d events", verbs, events)
	}
	breaker.Resume()
	env.AwaitIdle(t)
	if verbs := env.WriteVerbs(); !slices.Equal(verbs, []string{"patch", "delete"}) {
		t.Errorf("sent %q", verbs)
	}
}
