package devicetainteviction

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// conditionIn returns the condition that a request applies.
func conditionIn(t *testing.T, patch clienttesting.PatchActionImpl) *metav1.Condition {
	t.Helper()
	var body struct {
		Status struct{ Conditions []metav1.Condition }
	}
	if err := json.Unmarshal(patch.Patch, &body); err != nil || len(body.Status.Conditions) != 1 {
		t.Fatalf("applied %s: %v", patch.Patch, err)
	}
	return &body.Status.Conditions[0]
}

// statuses returns what was applied to rules, as "Reason Message".
func statuses(t *testing.T, env *controllertest.Env) []string {
	t.Helper()
	var all []string
	for _, action := range env.Fake.Actions() {
		if patch, ok := action.(clienttesting.PatchActionImpl); ok && patch.GetResource().Resource == "devicetaintrules" {
			condition := conditionIn(t, patch)
			all = append(all, condition.Reason+" "+condition.Message)
		}
	}
	return all
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
			queue := &controllertest.Queue[item]{}
			c.queue = queue
			if err := c.reconcile(env.Context(), keyOf("r", tc.uid)); err != nil {
				t.Fatal(err)
			}
			if again := len(queue.Take()) == 1; again != strings.Contains(name, "it differs, so soon") {
				t.Errorf("it is looked at again: %t", again)
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
	c := must.Get(newController(env.Env, usual))(t)
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
