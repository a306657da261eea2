package devicetainteviction

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

var podItem = item{NamespacedName: podKey, uid: "pod"}

// dueWorld is a pod that was due 30 seconds ago because of a rule, and objects besides.
func dueWorld(t testing.TB, change ...func(*corev1.Pod)) (*controllertest.Env, *evictionController) {
	t.Helper()
	env, c := fixture(t, rule("r", everything, noExecute), claim("d", "p", "d"), controllertest.Changed(pod("d"), change...))
	env.Clock.Step(30 * time.Second)
	return env, c
}

// Pins DTE-2, DTE-7, DTE-19, DTE-20, DTE-21, DTE-22, DTE-31, DTE-32, DTE-33, DTE-39, DTE-49 and DTE-60.
func TestEvict(t *testing.T) {
	env, c := dueWorld(t, func(p *corev1.Pod) { p.Generation = 3 })
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	actions := env.Fake.Actions()
	env.WantRequests(t, "get pods pod", "patch pods/status pod", "delete pods pod")
	want := `{"metadata":{"uid":"pod"},"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastProbeTime":null,` +
		`"lastTransitionTime":"2026-01-02T03:04:35Z","reason":"DeletionByDeviceTaintManager","message":"Device Taint manager: deleting due to NoExecute taint"}]}}`
	if patch := actions[1].(clienttesting.PatchActionImpl); string(patch.Patch) != want || patch.PatchType != types.StrategicMergePatchType {
		t.Errorf("patched with %s", patch.Patch)
	}
	options := actions[2].(clienttesting.DeleteActionImpl).DeleteOptions
	if options.GracePeriodSeconds != nil || *options.Preconditions.UID != "pod" || options.Preconditions.ResourceVersion != nil {
		t.Errorf("deleted with %+v", options)
	}
	env.WantEvents(t, marking)
	wantPending(t, c, -1)
	if c.counts["uid-of-r"] != 1 {
		t.Errorf("counts are %v", c.counts)
	}
	if got := env.Series(t, "device_taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("deletions are %q", got)
	}
	families, err := env.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "device_taint_eviction_controller_pod_deletion_duration_seconds" {
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
	// Until the cache shows its end, it is not evicted again.
	c.podChanged(pod("d"))
	wantPending(t, c, -1)
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t)
	env.WantEvents(t)
}

// A rule may evict thousands of pods, which then end for as long as their grace periods last. Pins DTE-60 and DTE-65.
func TestManyEvictedPodsAreNotEvictedAgain(t *testing.T) {
	const many = 600
	objects := []runtime.Object{rule("r", everything, noExecute)}
	var pods []runtime.Object
	var keys []item
	for i := range many {
		name := fmt.Sprintf("pod-%d", i)
		users := others("a", name, "p", "d")
		objects, pods = append(objects, users...), append(pods, users[0])
		keys = append(keys, item{NamespacedName: types.NamespacedName{Namespace: "a", Name: name}, uid: users[0].(*corev1.Pod).UID})
	}
	env, c := fixture(t, objects...)
	for _, key := range keys {
		if err := c.evict(logr.NewContext(env.Context(), logr.Discard()), key); err != nil {
			t.Fatal(err)
		}
	}
	show(t, env, c, rule("another", everything, noExecute))
	if pending, evicted := len(c.appointments.all), c.counts["uid-of-r"]; pending != 0 || evicted != many {
		t.Errorf("%d pods are pending, and %d were evicted", pending, evicted)
	}

	hide(t, env, c, pods[1:]...)
	show(t, env, c, controllertest.Changed(pods[0].(*corev1.Pod).DeepCopy(), func(p *corev1.Pod) { p.UID = "x" }))
	if len(c.evicted) != 0 {
		t.Errorf("%d pods that are gone are remembered", len(c.evicted))
	}
	// Also if the answer to its deletion comes after the event.
	c.ended(keys[1], nil)
	if len(c.evicted) != 0 {
		t.Errorf("%v is remembered and was gone before", c.evicted)
	}
}

func TestWhatNeedsNoEviction(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*testing.T, *controllertest.Env, *evictionController)
		key      item
		requests []string
		pending  int
	}{
		"DTE-19: nothing is pending": {func(t *testing.T, env *controllertest.Env, c *evictionController) {
			hide(t, env, c, rule("r", everything, noExecute))
			env.WantEvents(t, cancelling)
		}, podItem, nil, -1},
		"DTE-8, DTE-19: another pod of that name": {nil, item{NamespacedName: podKey, uid: "x"}, nil, 0},
		"DTE-19: it is due later": {func(t *testing.T, env *controllertest.Env, c *evictionController) {
			show(t, env, c, rule("r", everything, noExecute, func(r *resourcev1beta2.DeviceTaintRule) {
				r.Spec.Taint.TimeAdded = &metav1.Time{Time: seconds(90)}
			}))
		}, podItem, nil, 90},
		"DTE-20: it is gone": {func(t *testing.T, env *controllertest.Env, _ *evictionController) { env.Remove(t, pod("d")) }, podItem, []string{"get pods pod"}, -1},
		"DTE-20: another pod has its name": {func(t *testing.T, env *controllertest.Env, _ *evictionController) {
			env.Store(t, controllertest.Changed(pod("d"), func(p *corev1.Pod) { p.UID = "x" }))
		}, podItem, []string{"get pods pod"}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := dueWorld(t)
			if tc.change != nil {
				tc.change(t, env, c)
			}
			env.Fake.ClearActions()
			if err := c.reconcile(env.Context(), tc.key); err != nil {
				t.Fatal(err)
			}
			env.WantRequests(t, tc.requests...)
			env.WantEvents(t)
			wantPending(t, c, tc.pending)
			if got := env.Series(t, "device_taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"0"}) || len(c.counts) > 0 {
				t.Errorf("deletions are %q, %v", got, c.counts)
			}
		})
	}
}

// While the pod is read, which waits for the limits of the client, the administrator may have removed the taint.
//
// Pins DTE-67.
func TestAnEvictionThatIsCancelledDuringTheReadDoesNotTakePlace(t *testing.T) {
	later := rule("r", everything, noExecute, func(r *resourcev1beta2.DeviceTaintRule) {
		r.Spec.Taint.TimeAdded = &metav1.Time{Time: seconds(90)}
	})
	for name, tc := range map[string]struct {
		change  func(*testing.T, *controllertest.Env, *evictionController)
		events  []string
		pending int
	}{
		"it is cancelled": {func(t *testing.T, env *controllertest.Env, c *evictionController) {
			t.Helper()
			hide(t, env, c, rule("r", everything, noExecute))
		}, []string{cancelling}, -1},
		"it is postponed": {func(t *testing.T, env *controllertest.Env, c *evictionController) {
			t.Helper()
			show(t, env, c, later)
		}, nil, 90},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := dueWorld(t)
			env.Intercept("get pods pod", func(clienttesting.Action) error {
				tc.change(t, env, c)
				return nil
			})
			if err := c.reconcile(env.Context(), podItem); err != nil {
				t.Fatal(err)
			}
			env.WantRequests(t, "get pods pod")
			env.WantEvents(t, tc.events...)
			wantPending(t, c, tc.pending)
		})
	}
}

// Pins DTE-20 and DTE-22.
func TestAPodThatIsBeingDeletedCountsAsEvicted(t *testing.T) {
	env, c := dueWorld(t, controllertest.Terminating)
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "get pods pod")
	env.WantEvents(t)
	wantPending(t, c, -1)
	if got := env.Series(t, "device_taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"1"}) || c.counts["uid-of-r"] != 1 {
		t.Errorf("deletions are %q, %v", got, c.counts)
	}
}

// An eviction that the breaker has stopped is not announced.
func TestAnEvictionWaitsUntilPodsMayBeDeleted(t *testing.T) {
	env, c := dueWorld(t)
	breaker := &controllertest.Breaker{}
	c.Deletions = controller.DeletionsBy("c", breaker)
	breaker.Stop(corev1.Resource("pods"))
	if _, only := controller.StoppedIn(c.reconcile(env.Context(), podItem)); !only {
		t.Error("it was not stopped")
	}
	env.WantRequests(t, "get pods pod")
	env.WantEvents(t)
	breaker.Resume()
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "get pods pod", "patch pods/status pod", "delete pods pod")
	env.WantEvents(t, marking)
}

func TestFailuresAreRetriedUntilTheyNeedNotBe(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "pod")
	for name, tc := range map[string]struct {
		request  string
		answer   error
		retry    bool
		failed   bool
		events   []string
		requests []string
	}{
		"DTE-20: the read fails":             {"get pods pod", errors.New("boom"), true, true, nil, []string{"get pods pod"}},
		"DTE-21: the patch fails":            {"patch pods/status pod", errors.New("boom"), true, true, []string{marking}, []string{"get pods pod", "patch pods/status pod"}},
		"DTE-54: it is gone at the patch":    {"patch pods/status pod", gone, false, false, []string{marking}, []string{"get pods pod", "patch pods/status pod"}},
		"DTE-21: the deletion fails":         {"delete pods pod", errors.New("boom"), true, true, []string{marking}, []string{"get pods pod", "patch pods/status pod", "delete pods pod"}},
		"DTE-21: it is gone at the deletion": {"delete pods pod", gone, false, false, []string{marking}, []string{"get pods pod", "patch pods/status pod", "delete pods pod"}},
		"DTE-21: another pod has its name": {"delete pods pod", apierrors.NewConflict(corev1.Resource("pods"), "pod", errors.New("uid")), true, false,
			[]string{marking}, []string{"get pods pod", "patch pods/status pod", "delete pods pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := dueWorld(t)
			env.Refuse(tc.request, tc.answer)
			err := c.reconcile(env.Context(), podItem)
			if (err != nil) != tc.retry || err != nil && reconcile.IsExpected(err) == tc.failed {
				t.Errorf("got %v", err)
			}
			env.WantRequests(t, tc.requests...)
			env.WantEvents(t, tc.events...)
			wantPending(t, c, 0)
			if got := env.Series(t, "device_taint_eviction_controller_pod_deletions_total"); !slices.Equal(got, []string{"0"}) {
				t.Errorf("deletions are %q", got)
			}
			if tc.retry { // DTE-21: announced with every attempt
				_ = c.reconcile(env.Context(), podItem)
				env.WantEvents(t, tc.events...)
			}
		})
	}
}

// The API server may say so because of an admission webhook: only a read or the cache proves that a pod is gone. Pins DTE-63.
func TestAWriteDoesNotProveThatAPodIsGone(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "pod")
	for _, request := range []string{"patch pods/status pod", "delete pods pod"} {
		for name, isGone := range map[string]bool{"it is there": false, "it is gone": true} {
			t.Run(request+": "+name, func(t *testing.T) {
				env := controllertest.New(t, slice("p", 1, device("d", taint("a", 0))), claim("d", "p", "d"), pod("d"))
				c, err := newController(env.Env, usual)
				if err != nil {
					t.Fatal(err)
				}
				env.RefuseIf(request, gone, func(n int) bool {
					if n == 1 && isGone {
						env.Remove(t, pod("d"))
					}
					return n == 1
				})
				env.Start(t)
				env.Run(t, c)
				controllertest.Eventually(t, "a write is refused", func() bool { return c.loop.Inspect().Reconciled == 1 })
				if isGone {
					controllertest.Eventually(t, "nothing is pending", func() bool { return pending(c) < 0 })
				}
				env.Requests()
				env.EventuallyAsTimePasses(t, "the pod is looked at again", time.Second, func() bool { return c.loop.Inspect().Reconciled >= 2 })
				if took := env.Clock.Since(epoch); took < reconcile.RecheckAfter {
					t.Errorf("it is looked at again after %v", took)
				}
				_, stored := controllertest.Stored[*corev1.Pod](t, env, "ns", "pod")
				if writes := len(env.Writes()); stored || isGone != (writes == 0) {
					t.Errorf("stored is %v after %d writes", stored, writes)
				}
				wantPending(t, c, -1)
			})
		}
	}
}

// Pins DTE-31.
func TestTheConditionIsWrittenOnceWhateverBecomesOfTheDeletion(t *testing.T) {
	earlier := metav1.NewTime(epoch.Add(-time.Hour))
	has := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByDeviceTaintManager",
		Message: "Device Taint manager: deleting due to NoExecute taint", LastTransitionTime: earlier,
	}
	env, c := dueWorld(t, func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{has} })
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "get pods pod", "delete pods pod")

	has.Reason = "PreemptionByScheduler"
	env, c = dueWorld(t, func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{has} })
	if err := c.reconcile(env.Context(), podItem); err != nil {
		t.Fatal(err)
	}
	if patch := env.Fake.Actions()[1].(clienttesting.PatchActionImpl); !slices.Contains(env.Requests(), "patch pods/status pod") ||
		!strings.Contains(string(patch.Patch), `"lastTransitionTime":"2026-01-02T02:04:05Z"`) {
		t.Errorf("patched with %s", patch.Patch)
	}
}

// Pins DTE-2, DTE-7 and DTE-25.
func TestTheStatusOfARuleIsApplied(t *testing.T) {
	env, c := fixture(t, rule("r", everything, noExecute), claim("d", "p", "d"), pod("d"))
	env.Fake.ClearActions()
	if err := c.reconcile(env.Context(), keyOf("r", "uid-of-r")); err != nil {
		t.Fatal(err)
	}
	patch := env.Fake.Actions()[0].(clienttesting.PatchActionImpl)
	env.WantRequests(t, "patch devicetaintrules/status r")
	want := `{"kind":"DeviceTaintRule","apiVersion":"resource.k8s.io/v1beta2","metadata":{"name":"r","uid":"uid-of-r"},"status":{"conditions":[` +
		`{"type":"EvictionInProgress","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"PodsPendingEviction","message":"1 pod needs to be evicted in 1 namespace."}]}}`
	if string(patch.Patch) != want || patch.PatchType != types.ApplyPatchType || patch.PatchOptions.FieldManager != "device-taint-eviction-controller" || !*patch.PatchOptions.Force {
		t.Errorf("applied %s as %+v", patch.Patch, patch.PatchOptions)
	}
}

func TestWhenTheStatusOfARuleIsWritten(t *testing.T) {
	shown := func(condition metav1.Condition) func(*resourcev1beta2.DeviceTaintRule) {
		return func(r *resourcev1beta2.DeviceTaintRule) { r.Status.Conditions = []metav1.Condition{condition} }
	}
	is := conditionFor(rule("r", everything, noExecute), counts{})
	at := func(change func(*metav1.Condition), ago time.Duration) func(*resourcev1beta2.DeviceTaintRule) {
		c := is
		c.LastTransitionTime = metav1.NewTime(epoch.Add(-ago))
		change(&c)
		return shown(c)
	}
	differs := func(c *metav1.Condition) { c.Reason = "Completed" }
	for name, tc := range map[string]struct {
		rule  *resourcev1beta2.DeviceTaintRule
		uid   types.UID
		wrote bool
	}{
		"DTE-25: there is none":                     {rule("r", everything, noExecute), "uid-of-r", true},
		"DTE-25: it is the same":                    {rule("r", everything, noExecute, at(func(*metav1.Condition) {}, time.Hour)), "uid-of-r", false},
		"DTE-25: it differs":                        {rule("r", everything, noExecute, at(differs, time.Hour)), "uid-of-r", true},
		"DTE-23, DTE-34: it differs, so soon":       {rule("r", everything, noExecute, at(differs, 10*time.Second-1)), "uid-of-r", false},
		"DTE-23, DTE-34: it differs, after a while": {rule("r", everything, noExecute, at(differs, 10*time.Second)), "uid-of-r", true},
		"DTE-23: of another generation, so soon":    {rule("r", everything, noExecute, at(func(c *metav1.Condition) { c.ObservedGeneration = 0 }, time.Second)), "uid-of-r", true},
		"DTE-23: another rule of that name":         {rule("r", everything, noExecute), "x", false},
		"DTE-23: another name":                      {rule("s", everything, noExecute), "uid-of-r", false},
		"DTE-66: it differs, by a clock ahead":      {rule("r", everything, noExecute, at(differs, -time.Hour)), "uid-of-r", true},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.rule)
			env.Fake.ClearActions()
			if err := c.reconcile(env.Context(), keyOf("r", tc.uid)); err != nil {
				t.Fatal(err)
			}
			if wrote := len(env.Writes()) == 1; wrote != tc.wrote {
				t.Errorf("sent %v", env.Writes())
			}
		})
	}
}

// The cache may show the status before that only after the decision that it is right. Pins DTE-68.
func TestAStatusThatTheCacheShowsLateIsCorrected(t *testing.T) {
	former := rule("r", everything, noExecute, func(r *resourcev1beta2.DeviceTaintRule) {
		condition := conditionFor(r, counts{})
		condition.LastTransitionTime = metav1.NewTime(epoch.Add(-time.Minute))
		r.Status.Conditions = []metav1.Condition{condition}
	})
	env, c := fixture(t, former, claim("d", "p", "d", tolerates("r", 600)), pod("d"))
	queue, rules := &controllertest.Queue[item]{}, &controllertest.Captured{}
	c.watchRules(rules)
	c.queue = queue
	report := func() {
		if err := c.reconcile(env.Context(), keyOf("r", "uid-of-r")); err != nil {
			t.Fatal(err)
		}
	}
	report()
	hide(t, env, c, pod("d"))
	env.Clock.Step(reportPeriod)
	report()
	if got := statuses(t, env); len(got) != 1 {
		t.Fatalf("applied %q", got)
	}
	queue.Clear()
	late := former.DeepCopy()
	late.Status.Conditions[0] = conditionFor(late, counts{pods: 1, namespaces: 1})
	late.Status.Conditions[0].LastTransitionTime = metav1.NewTime(epoch)
	late.ResourceVersion = "2"
	env.Cache(t, late)
	rules.Handler.OnUpdate(former, late)
	if len(queue.Take()) != 1 {
		t.Error("the rule is not looked at again")
	}
	report()
	if got := statuses(t, env); len(got) != 2 || got[1] != "NotStarted " {
		t.Errorf("applied %q", got)
	}
}

// Pins DTE-25.
func TestAStatusThatIsRefusedIsRetried(t *testing.T) {
	env, c := fixture(t, rule("r", everything, noExecute))
	env.Refuse("patch devicetaintrules/status r", errors.New("boom"))
	if err := c.reconcile(env.Context(), keyOf("r", "uid-of-r")); err == nil {
		t.Error("no error")
	}
}

// others are pods in other namespaces that use devices.
func others(namespace, name, pool, device string, change ...func(*corev1.Pod)) []runtime.Object {
	p, c := pod(name), claim(name, pool, device)
	p.Namespace, p.Name, p.UID = namespace, name, types.UID("pod-"+name)
	c.Namespace = namespace
	c.Status.ReservedFor[0].Name, c.Status.ReservedFor[0].UID = name, p.UID
	for _, f := range change {
		f(p)
	}
	return []runtime.Object{p, c}
}

func TestWhatTheStatusOfARuleCounts(t *testing.T) {
	tolerant := func(limit ...int64) []runtime.Object {
		return []runtime.Object{pod("d"), claim("d", "p", "d", tolerates("r", limit...))}
	}
	mine := []runtime.Object{pod("d"), claim("d", "p", "d")}
	unallocated := controllertest.Changed(claim("e", "p", "e"), func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil })
	published := func(devices ...resourcev1.Device) []runtime.Object {
		return []runtime.Object{slice("p", 2, devices...), slice("p", 1, device("a"), device("b"), device("c"))}
	}
	for name, tc := range map[string]struct {
		rule    *resourcev1beta2.DeviceTaintRule
		objects [][]runtime.Object
		want    counts
	}{
		"DTE-24: nobody":                        {rule("r", everything, noExecute), nil, counts{}},
		"DTE-24: pods in namespaces":            {rule("r", everything, noExecute), [][]runtime.Object{mine, others("a", "x", "p", "e"), others("a", "y", "q", "d")}, counts{pods: 3, namespaces: 2}},
		"DTE-24: those it selects":              {rule("r", driver+"/p/", noExecute), [][]runtime.Object{mine, others("a", "x", "p", "e"), others("b", "y", "q", "d")}, counts{pods: 2, namespaces: 2}},
		"DTE-24: also later":                    {rule("r", everything, noExecute), [][]runtime.Object{tolerant(60)}, counts{pods: 1, namespaces: 1}},
		"DTE-24: not tolerated":                 {rule("r", everything, noExecute), [][]runtime.Object{tolerant()}, counts{}},
		"DTE-24: not being deleted":             {rule("r", everything, noExecute), [][]runtime.Object{others("a", "x", "p", "e", controllertest.Terminating)}, counts{}},
		"DTE-24: without an effect":             {rule("r", everything, noEffect), [][]runtime.Object{mine, others("a", "x", "p", "e"), published(device("d"), device("e"))}, counts{published: 2, allocated: 2, pods: 2, namespaces: 2}},
		"DTE-24: not those that tolerate it":    {rule("r", everything, noEffect), [][]runtime.Object{tolerant()}, counts{allocated: 1}},
		"DTE-24: those that do for some time":   {rule("r", everything, noEffect), [][]runtime.Object{tolerant(60)}, counts{allocated: 1, pods: 1, namespaces: 1}},
		"DTE-24: on a device":                   {rule("r", driver+"/p/d", noEffect), [][]runtime.Object{mine, others("a", "x", "p", "e"), published(device("d"), device("e"))}, counts{published: 1, allocated: 1, pods: 1, namespaces: 1}},
		"DTE-24: on devices of a name":          {rule("r", "//d", noEffect), [][]runtime.Object{mine, others("a", "x", "q", "d"), published(device("d"), device("e"))}, counts{published: 1, allocated: 2, pods: 2, namespaces: 2}},
		"DTE-24: of a driver":                   {rule("r", driver+"//", noEffect), [][]runtime.Object{mine, published(device("d"))}, counts{published: 1, allocated: 1, pods: 1, namespaces: 1}},
		"DTE-24: a claim that is not allocated": {rule("r", everything, noEffect), [][]runtime.Object{mine, {unallocated}}, counts{allocated: 1, pods: 1, namespaces: 1}},
		"DTE-24: without a selector":            {rule("r", "", noEffect), [][]runtime.Object{mine, published(device("d"))}, counts{}},
		"DTE-24: not those evicted otherwise":   {rule("r", "//e", noEffect), [][]runtime.Object{mine, {slice("p", 2, device("d", taint("a", 5)))}}, counts{}},
		"DTE-64: published by nodes": {rule("r", everything, noEffect), [][]runtime.Object{{
			ofNode("a", slice("p", 1, device("d"))), ofNode("b", slice("p", 9, device("d"), device("e"))), slice("p", 2, device("f")), slice("p", 1, device("g")),
		}}, counts{published: 3}},
		"DTE-24: nothing of another effect": {rule("r", everything, "NoSchedule"), [][]runtime.Object{mine, published(device("d"))}, counts{}},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, append(slices.Concat(tc.objects...), tc.rule)...)
			before, events := c.appointments.copied(), len(env.RecordedEvents())
			got, err := c.count(tc.rule)
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v", got, err)
			}
			if after := c.appointments.copied(); len(after) != len(before) || events != 0 || len(env.RecordedEvents()) != 0 {
				t.Errorf("counting had an effect: %v", after)
			}
		})
	}
}

// A pod that replaced the one that is pending is not pending, even if its cache is ahead of its events. Pins DTE-24.
func TestTheStatusOfARuleCountsPodsByTheirUIDs(t *testing.T) {
	env, c := fixture(t, rule("r", everything, noExecute), claim("d", "p", "d"), pod("d"))
	env.Cache(t, controllertest.Changed(pod(), func(p *corev1.Pod) { p.UID = "x" }))
	if got, err := c.count(rule("r", everything, noExecute)); err != nil || got != (counts{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A status that says that pods are pending does not stay when they have gone for another reason. Pins DTE-55.
func TestTheStatusOfARuleFollowsPodsThatGoByThemselves(t *testing.T) {
	env := controllertest.New(t, rule("r", everything, noExecute), claim("d", "p", "d", tolerates("r", 600)), pod("d"))
	c, err := newController(env.Env, usual)
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "the status says that a pod is pending", func() bool { return len(statuses(t, env)) == 1 })
	env.AwaitIdle(t)
	env.Remove(t, pod("d"))
	env.EventuallyAsTimePasses(t, "the status is corrected", time.Second, func() bool { return len(statuses(t, env)) == 2 })
	if got := statuses(t, env); got[1] != "NotStarted " {
		t.Errorf("statuses are %q", got)
	}
}

// Pins DTE-48 and DTE-52.
func TestASuccessorContinuesAppointmentsAndCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		slice  *resourcev1.ResourceSlice
		want   int
		events []string
	}{
		"DTE-52: the same":          {slice("p", 1, device("d", taint("a", 5))), 65, nil},
		"DTE-52: the taint is gone": {slice("p", 1, device("d")), -1, []string{cancelling}},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule("r", "//e", noExecute)
			objects := append(others("a", "evicted", "q", "d"), r, slice("p", 1, device("d", taint("a", 5))), claim("d", "p", "d", tolerates("a", 60)), pod("d"))
			env, c := fixture(t, objects...)
			wantPending(t, c, 65)
			c.counts["uid-of-r"], c.counts["gone"] = 7, 8
			evicted, gone := types.NamespacedName{Namespace: "a", Name: "evicted"}, types.NamespacedName{Namespace: "a", Name: "gone"}
			c.evicted[evicted], c.evicted[gone] = "pod-evicted", "pod-gone"
			env.Clock.Step(20 * time.Second)
			env.Succeed(c.HandOver())
			env.Cache(t, tc.slice)
			successor := begun(t, env, tc.slice)
			wantPending(t, successor, tc.want)
			env.WantEvents(t, tc.events...)
			if len(successor.counts) != 1 || successor.counts["uid-of-r"] != 7 {
				t.Errorf("counts are %v", successor.counts)
			}
			if !successor.isEvicted(evicted, "pod-evicted") || len(successor.evicted) != 1 {
				t.Errorf("pods that were evicted: %v", successor.evicted)
			}
		})
	}
}

// A process that takes over knows nothing but what the API server stores. What is due by then is evicted
// at once, what is not is evicted in time. Pins DTE-48.
func TestCountdownsSurviveACrash(t *testing.T) {
	objects := slices.Concat(
		[]runtime.Object{slice("p", 1, device("d", taint("a", 0)))},
		[]runtime.Object{pod("d"), claim("d", "p", "d", tolerates("a", 60))},
		others("a", "late", "p", "d"), others("a", "other", "p", "e"))
	env := controllertest.New(t, objects...)
	env.Clock.Step(30 * time.Second)
	c, err := newController(env.Env, usual)
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Run(t, c)
	gone := func(namespace, name string) bool {
		_, ok := controllertest.Stored[*corev1.Pod](t, env, namespace, name)
		return !ok
	}
	controllertest.Eventually(t, "what is overdue is evicted", func() bool { return gone("a", "late") })
	env.AwaitIdle(t)
	env.Clock.Step(29 * time.Second)
	env.AwaitIdle(t)
	if gone("ns", "pod") {
		t.Fatal("a pod was evicted early")
	}
	env.EventuallyAsTimePasses(t, "the other is evicted in time", 500*time.Millisecond, func() bool { return gone("ns", "pod") })
	if now := env.Clock.Now(); now.Before(seconds(60)) {
		t.Errorf("evicted at %v", now)
	}
	if gone("a", "other") {
		t.Error("a pod was evicted whose device is not tainted")
	}
}

// A rule without an effect is told once what it would do, whoever runs. Pins DTE-53.
func TestARestartUpdatesOnlyWhatItMay(t *testing.T) {
	shown := func(r *resourcev1beta2.DeviceTaintRule) {
		r.Status.Conditions = []metav1.Condition{{Type: "EvictionInProgress", ObservedGeneration: r.Generation}}
	}
	for name, tc := range map[string]struct {
		rule *resourcev1beta2.DeviceTaintRule
		want int
	}{
		"DTE-16: not told yet":           {rule("r", everything, noEffect), 1},
		"DTE-53: told":                   {rule("r", everything, noEffect, shown), 0},
		"DTE-53: told of an older state": {rule("r", everything, noEffect, shown, func(r *resourcev1beta2.DeviceTaintRule) { r.Generation++ }), 1},
		"DTE-53: it evicts":              {rule("r", everything, noExecute, shown), 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := fixture(t, tc.rule)
			if depth := c.loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued, want %d", depth, tc.want)
			}
		})
	}
}

// A rule with a toleration of 30 seconds from its creation to its end: pending at once, deleted in time,
// done ten seconds later. Pins DTE-8, DTE-16, DTE-18, DTE-22, DTE-34 and DTE-49.
func TestARuleFromBeginningToEnd(t *testing.T) {
	env := controllertest.New(t, pod("d"), claim("d", "p", "d", tolerates("r", 30)))
	c, err := newController(env.Env, usual)
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Run(t, c)
	env.AwaitIdle(t)
	if _, err := env.Fake.ResourceV1beta2().DeviceTaintRules().Create(env.Context(), rule("r", everything, noExecute), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the status says that a pod is pending", func() bool {
		return slices.Equal(statuses(t, env), []string{"PodsPendingEviction 1 pod needs to be evicted in 1 namespace."})
	})
	env.EventuallyAsTimePasses(t, "the pod is deleted", time.Second, func() bool {
		_, ok := controllertest.Stored[*corev1.Pod](t, env, "ns", "pod")
		return !ok
	})
	if took := env.Clock.Since(epoch); took < 30*time.Second {
		t.Errorf("it took %v", took)
	}
	deleted := env.Clock.Now()
	env.EventuallyAsTimePasses(t, "the status says that it is done", time.Second, func() bool { return len(statuses(t, env)) == 2 })
	if got := statuses(t, env)[1]; got != "Completed 1 pod evicted since starting the controller." {
		t.Errorf("the status is %s", got)
	}
	if took := env.Clock.Since(deleted); took < 9*time.Second {
		t.Errorf("it was written after %v", took)
	}
}

// Pins DTE-1, DTE-2, DTE-4, DTE-46 and DTE-57.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "device-taint-eviction-controller" || len(d.Aliases) != 0 || d.ServiceAccount != d.Name || d.EventSource != d.Name {
		t.Errorf("described as %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if on, why := d.Enabled(cfg); !on {
		t.Errorf("not enabled: %s", why)
	}
	if d.Value(cfg) != (config{workers: 8}) {
		t.Errorf("reads %+v", d.Value(cfg))
	}
	if resources := d.Resources(d.Value(cfg)); len(resources) != 3 {
		t.Errorf("needs %v", resources)
	}
	cfg.FeatureGates = map[string]bool{"DRADeviceTaintRules": true, "GenericWorkload": true, "DRAWorkloadResourceClaims": true}
	if d.Value(cfg) != (config{workers: 8, rules: true, podGroups: true}) {
		t.Errorf("reads %+v", d.Value(cfg))
	}
	if resources := d.Resources(d.Value(cfg)); len(resources) != 4 || resources[3] != ruleResource {
		t.Errorf("needs %v", resources)
	}
	env := controllertest.New(t)
	built, err := d.New(env.Env, d.Value(cfg))
	if err != nil {
		t.Fatal(err)
	}
	if s := built.(*evictionController).loop.Inspect(); s.Workers != 8 || s.Queue != d.Name {
		t.Errorf("loop: %+v", s)
	}
	if _, ok := env.Informers.Core().V1().Pods().Informer().GetIndexer().GetIndexers()[index.PodsByGroup]; !ok {
		t.Error("pods are not indexed by group")
	}
	cfg.FeatureGates = map[string]bool{"DRADeviceTaints": false}
	if on, why := d.Enabled(cfg); on || why != "needs the feature gate DRADeviceTaints" {
		t.Errorf("enabled is %v: %s", on, why)
	}
}

// Without rules and groups. Pins DTE-1 and DTE-5.
func TestWithoutRules(t *testing.T) {
	env := controllertest.New(t, slice("p", 1, device("d", taint("a", 0))), claim("d", "p", "d"), pod("d"))
	left := handover{appointments: map[types.NamespacedName]appointment{
		podKey: {"pod", verdict{due: epoch, reasons: []reason{{rule: "r", uid: "uid-of-r"}}}}, // of an instance with rules
	}}
	env.Succeed(left)
	c, err := newController(env.Env, config{workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "the pod is evicted", func() bool {
		_, ok := controllertest.Stored[*corev1.Pod](t, env, "ns", "pod")
		return !ok
	})
	env.AwaitIdle(t)
	for _, request := range env.Requests() {
		if request == "list devicetaintrules" {
			t.Error("rules are listed")
		}
	}
	if _, ok := env.Informers.Core().V1().Pods().Informer().GetIndexer().GetIndexers()[index.PodsByGroup]; ok {
		t.Error("pods are indexed by group")
	}
}
