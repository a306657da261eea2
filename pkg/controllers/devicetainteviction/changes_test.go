package devicetainteviction

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// orders returns all orders of n things.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, shorter := range orders(n - 1) {
		for at := range n {
			order := append(append(append([]int{}, shorter[:at]...), n-1), shorter[at:]...)
			all = append(all, order)
		}
	}
	return all
}

// What is pending in the end does not depend on the order in which the caches show objects, and
// nothing is announced on the way. Pins DTE-6, DTE-14, DTE-15, DTE-16, DTE-17, DTE-18 and DTE-48.
func TestTheOrderOfEventsDoesNotMatter(t *testing.T) {
	grouped, shared := pod("d"), claim("d", "p", "d")
	inPodGroup(grouped, shared)
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    int
	}{
		"a slice":               {[]runtime.Object{slice("p", 1, device("d", taint("a", 5))), claim("d", "p", "d"), pod("d")}, 5},
		"a rule":                {[]runtime.Object{rule("r", everything, noExecute), claim("d", "p", "d"), pod("d")}, 0},
		"the earlier of two":    {[]runtime.Object{rule("r", "//d", noExecute), slice("p", 1, device("d", taint("a", 5))), claim("d", "p", "d"), pod("d")}, 0},
		"two claims":            {[]runtime.Object{slice("p", 1, device("d", taint("a", 5)), device("e", taint("a", 9))), claim("d", "p", "d"), claim("e", "p", "e"), pod("d", "e")}, 5},
		"a limited toleration":  {[]runtime.Object{slice("p", 1, device("d", taint("a", 5))), claim("d", "p", "d", tolerates("a", 60)), pod("d")}, 65},
		"tolerated":             {[]runtime.Object{slice("p", 1, device("d", taint("a", 5))), claim("d", "p", "d", tolerates("a")), pod("d")}, -1},
		"an older generation":   {[]runtime.Object{slice("p", 2, device("d", taint("a", 5))), slice("p", 1, device("d", taint("a", 3))), claim("d", "p", "d"), pod("d")}, 5},
		"a group":               {[]runtime.Object{slice("p", 1, device("d", taint("a", 5))), shared, grouped}, 5},
		"a rule that is tamed":  {[]runtime.Object{rule("r", everything, noEffect), claim("d", "p", "d"), pod("d")}, -1},
		"another pod, reserved": {[]runtime.Object{rule("r", everything, noExecute), claim("d", "p", "d"), controllertest.Changed(pod("d"), func(p *corev1.Pod) { p.UID = "x" })}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range orders(len(tc.objects)) {
				env, c := fixture(t)
				for _, i := range order {
					show(t, env, c, tc.objects[i])
				}
				wantPending(t, c, tc.want)
				if t.Failed() {
					t.Fatalf("in order %v", order)
				}
				env.WantEvents(t)
				env.Succeed(nil)
				again := begun(t, env, tc.objects...)
				wantPending(t, again, tc.want)
			}
		})
	}
}

// A node publishes a slice of the pool of another node. Pins DTE-64.
func TestANodeEvictsNoPodsOfOthers(t *testing.T) {
	mine := ofNode("node", slice("p", 1, device("d")))
	env, c := fixture(t, mine, claim("d", "p", "d"), pod("d"))
	intruder := ofNode("other", slice("p", 9, device("d", taint("a", 5))))
	show(t, env, c, intruder)
	wantPending(t, c, -1)
	show(t, env, c, controllertest.Changed(pod("d"), controllertest.OnNode("other")))
	wantPending(t, c, 5)
	show(t, env, c, pod("d"))
	wantPending(t, c, -1)
	env.WantEvents(t, cancelling)
	show(t, env, c, ofNode("node", slice("p", 1, device("d", taint("a", 7)))), ofNode("other", slice("p", 9, device("d"))))
	wantPending(t, c, 7)
	hide(t, env, c, intruder)
	wantPending(t, c, 7)
	show(t, env, c, mine)
	wantPending(t, c, -1)
	if !c.taints.none() {
		t.Errorf("left is %v", c.taints)
	}
}

// The first slice of a node takes the place of those that all share, also if it taints nothing. Pins DTE-64.
func TestTheFirstSliceOfANode(t *testing.T) {
	env, c := fixture(t, slice("p", 1, device("d", taint("a", 5))), claim("d", "p", "d"), pod("d"))
	wantPending(t, c, 5)
	show(t, env, c, ofNode("node", slice("p", 2, device("d"))))
	wantPending(t, c, -1)
	hide(t, env, c, ofNode("node", slice("p", 2, device("d"))))
	wantPending(t, c, 5)
}

// tainted world is a pod whose claim has a device that is tainted 5 seconds after the epoch.
func taintedWorld(t testing.TB) (*controllertest.Env, *evictionController) {
	t.Helper()
	env, c := fixture(t, slice("p", 1, device("d", taint("a", 5))), claim("d", "p", "d"), pod("d"))
	wantPending(t, c, 5)
	return env, c
}

func TestWhatChangesAPendingEviction(t *testing.T) {
	type world = func(t *testing.T, env *controllertest.Env, c *evictionController)
	shows := func(objects ...runtime.Object) world {
		return func(t *testing.T, env *controllertest.Env, c *evictionController) {
			t.Helper()
			show(t, env, c, objects...)
		}
	}
	hides := func(objects ...runtime.Object) world {
		return func(t *testing.T, env *controllertest.Env, c *evictionController) {
			t.Helper()
			hide(t, env, c, objects...)
		}
	}
	replaced := claim("d", "p", "d")
	replaced.UID = "x"
	unallocated, unreserved := claim("d", "p", "d"), claim("d", "p", "d")
	unallocated.Status.Allocation, unreserved.Status.ReservedFor = nil, nil
	for name, tc := range map[string]struct {
		change    world
		want      int
		cancelled bool
	}{
		"DTE-15: the taint is removed":            {shows(slice("p", 1, device("d"))), -1, true},
		"DTE-15: it gets another effect":          {shows(slice("p", 1, device("d", soft("a")))), -1, true},
		"DTE-15, DTE-18: it was added earlier":    {shows(slice("p", 1, device("d", taint("a", 3)))), 3, false},
		"DTE-15, DTE-18: it was added later":      {shows(slice("p", 1, device("d", taint("a", 7)))), 7, false},
		"DTE-15: nothing changes":                 {shows(slice("p", 1, device("d", taint("a", 5)))), 5, false},
		"DTE-15: the slice is removed":            {hides(slice("p", 1)), -1, true},
		"DTE-15: by a newer generation":           {shows(slice("p", 2, device("d"))), -1, true},
		"DTE-15: a newer generation has it too":   {shows(slice("p", 2, device("d", taint("a", 5)))), 5, false},
		"DTE-15: an older generation":             {shows(slice("p", 0, device("d", taint("a", 1)))), 5, false},
		"DTE-14: the claim is deleted":            {hides(claim("d", "p", "d")), -1, true},
		"DTE-14: it is deallocated":               {shows(unallocated), -1, true},
		"DTE-14: it is given back":                {shows(unreserved), -1, true},
		"DTE-14: it is replaced by another":       {shows(replaced), 5, false},
		"DTE-17: the pod is deleted":              {hides(pod("d")), -1, false},
		"DTE-42: it is replaced by another":       {shows(controllertest.Changed(pod("d"), func(p *corev1.Pod) { p.UID = "x" })), -1, false},
		"DTE-16: a rule has it evicted now":       {shows(rule("r", everything, noExecute)), 0, false},
		"DTE-16: a rule that does not concern it": {shows(rule("r", "//e", noExecute)), 5, false},
		"DTE-16: a rule of another effect":        {shows(rule("r", everything, "NoSchedule")), 5, false},
		"DTE-59: another claim of a tainted device": {func(t *testing.T, env *controllertest.Env, c *evictionController) {
			show(t, env, c, claim("e", "p", "e"))
		}, 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := taintedWorld(t)
			tc.change(t, env, c)
			wantPending(t, c, tc.want)
			if tc.cancelled {
				env.WantEvents(t, cancelling)
			} else {
				env.WantEvents(t)
			}
			env.WantRequests(t)
		})
	}
}

func TestRulesComeAndGo(t *testing.T) {
	env, c := fixture(t, claim("d", "p", "d"), pod("d"))
	show(t, env, c, rule("r", everything, noEffect))
	wantPending(t, c, -1)
	show(t, env, c, rule("r", driver+"/p/d", noExecute))
	wantPending(t, c, 0)
	show(t, env, c, rule("r", driver+"/p/e", noExecute)) // DTE-16: those it selected before are judged
	wantPending(t, c, -1)
	env.WantEvents(t, cancelling)
	show(t, env, c, rule("r", driver+"//", noExecute), rule("s", driver+"/p/", noExecute))
	wantPending(t, c, 0)
	hide(t, env, c, rule("r", driver+"//", noExecute))
	wantPending(t, c, 0)
	env.WantEvents(t)
	hide(t, env, c, rule("s", driver+"/p/", noExecute))
	wantPending(t, c, -1)
	env.WantEvents(t, cancelling)
	if len(c.appointments.byRule) != 0 || !c.taints.none() {
		t.Errorf("left are %v, %v", c.appointments.byRule, c.taints)
	}
}

// A rule that was replaced by another of its name, which may show as an update. Pins DTE-41.
func TestAReplacedRuleIsAnotherRule(t *testing.T) {
	another := func(r *resourcev1beta2.DeviceTaintRule) { r.UID = "another" }
	env, c := fixture(t, rule("r", everything, noExecute), claim("d", "p", "d"), pod("d"))
	c.counts["uid-of-r"] = 7
	before := c.loop.Inspect().Depth
	show(t, env, c, rule("r", everything, noExecute, another))
	if c.counts["uid-of-r"] != 0 || c.loop.Inspect().Depth != before+1 {
		t.Errorf("counts are %v, %d keys queued after %d", c.counts, c.loop.Inspect().Depth, before)
	}
	if made := c.appointments.all[podKey]; len(made.reasons) != 1 || made.reasons[0].uid != "another" {
		t.Errorf("pending is %+v", made)
	}
	c.counts["another"] = 3
	hide(t, env, c, rule("r", everything, noExecute, another))
	if len(c.counts) != 0 {
		t.Errorf("counts are %v", c.counts)
	}
}

// Nothing is judged, and nothing announced, while caches fill. Pins DTE-5, DTE-56 and DTE-58.
func TestNobodyIsJudgedBeforeAllCachesAreComplete(t *testing.T) {
	env := controllertest.New(t)
	c := must.Get(newController(env.Env, usual))(t)
	show(t, env, c, pod("d"), claim("d", "p", "d"), slice("p", 1, device("d", taint("a", 5))), rule("r", everything, noExecute))
	wantPending(t, c, -1)
	if depth := c.loop.Inspect().Depth; depth != 0 {
		t.Errorf("%d keys are queued", depth)
	}
	show(t, env, c, slice("p", 2, device("d")))
	hide(t, env, c, rule("r", everything, noExecute))
	if err := c.begin(env.Context()); err != nil {
		t.Fatal(err)
	}
	wantPending(t, c, -1)
	env.WantEvents(t)
}

func TestSameUse(t *testing.T) {
	status := func(name *string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "x", ResourceClaimName: name}}
		}
	}
	named := func(p *corev1.Pod) { extended(p, claim("d", "p", "d")) }
	for name, tc := range map[string]struct {
		old, new *corev1.Pod
		want     bool
	}{
		"DTE-17, DTE-51: uses no claim":      {pod(), controllertest.Changed(pod(), controllertest.OnNode("other")), true},
		"DTE-17, DTE-51: something else":     {pod("d"), controllertest.Changed(pod("d"), controllertest.InPhase(corev1.PodFailed)), true},
		"DTE-17: equal names of claims":      {controllertest.Changed(pod("d"), status(ptr.To("a"))), controllertest.Changed(pod("d"), status(ptr.To("a"))), true},
		"DTE-17: a claim gets a name":        {controllertest.Changed(pod("d"), status(nil)), controllertest.Changed(pod("d"), status(ptr.To("a"))), false},
		"DTE-17: bound":                      {controllertest.Changed(pod("d"), controllertest.OnNode("")), pod("d"), false},
		"DTE-69: a claim is named":           {pod(), controllertest.Changed(pod(), named), false},
		"DTE-69: the same claim is named":    {controllertest.Changed(pod(), named), controllertest.Changed(pod(), named), true},
		"DTE-42: another pod of that name":   {pod("d"), controllertest.Changed(pod("d"), func(p *corev1.Pod) { p.UID = "x" }), false},
		"DTE-42: another, which uses claims": {pod(), controllertest.Changed(pod("d"), func(p *corev1.Pod) { p.UID = "x" }), false},
	} {
		if got := sameUse(tc.old, tc.new); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWhomAnUpdateOfAClaimConcerns(t *testing.T) {
	changed := func(change func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		c := claim("d", "p", "d")
		change(c)
		return c
	}
	free := func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }
	more := func(c *resourcev1.ResourceClaim) {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "x", UID: "pod-x"})
	}
	other := others("ns", "x", "p", "d")[0].(*corev1.Pod)
	other.Spec.ResourceClaims = pod("d").Spec.ResourceClaims
	for name, tc := range map[string]struct {
		old, new *resourcev1.ResourceClaim
		want     []string // pods that are judged
	}{
		"DTE-14: not allocated":           {changed(free), changed(free), nil},
		"DTE-14: allocated":               {changed(free), claim("d", "p", "d"), []string{"pod"}},
		"DTE-14: nothing of concern":      {claim("d", "p", "d"), changed(func(c *resourcev1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }), nil},
		"DTE-14: another claim":           {changed(func(c *resourcev1.ResourceClaim) { c.UID = "x" }), claim("d", "p", "d"), []string{"pod"}},
		"DTE-14: another owner":           {changed(func(c *resourcev1.ResourceClaim) { c.OwnerReferences = []metav1.OwnerReference{{UID: "x"}} }), claim("d", "p", "d"), []string{"pod"}},
		"DTE-62: allocated otherwise":     {changed(func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Device = "x" }), claim("d", "p", "d"), []string{"pod"}},
		"DTE-61: one more consumer":       {claim("d", "p", "d"), changed(more), []string{"x"}},
		"DTE-14: allocated for several":   {changed(free), changed(more), []string{"pod", "x"}},
		"DTE-14: the consumer is another": {changed(func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor[0].UID = "x" }), claim("d", "p", "d"), []string{"pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, pod("d"), other, rule("r", "//d", noExecute))
			env.Cache(t, tc.new)
			c.claimUpdated(tc.old, tc.new)
			var got []string
			for key := range c.appointments.all {
				got = append(got, key.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("judged are %q, want %q", got, tc.want)
			}
		})
	}
}

// Pins DTE-16, DTE-35 and DTE-36.
func TestHandlers(t *testing.T) {
	env, c := fixture(t, claim("d", "p", "d"), pod("d"))
	pods, claims, published, rules := &controllertest.Captured{}, &controllertest.Captured{}, &controllertest.Captured{}, &controllertest.Captured{}
	c.watchPods(pods)
	c.watchClaims(claims)
	c.watchSlices(published)
	c.watchRules(rules)
	bad := slice("p", 1, device("d", taint("a", 5)))
	env.Cache(t, bad)
	published.Handler.OnUpdate(slice("p", 1, device("d")), bad)
	wantPending(t, c, 5)
	published.Handler.OnUpdate(bad, "no slice")
	env.Uncache(t, bad)
	published.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: bad.Name, Obj: bad})
	wantPending(t, c, -1)
	env.WantEvents(t, cancelling)

	elsewhere := slice("q", 1, device("d", taint("a", 7)))
	elsewhere.Name = bad.Name
	env.Cache(t, bad)
	published.Handler.OnAdd(bad, false)
	env.Cache(t, elsewhere)
	published.Handler.OnUpdate(bad, elsewhere) // a slice of the same name, of another pool
	wantPending(t, c, -1)
	env.WantEvents(t, cancelling)

	plain := rule("r", everything, noExecute)
	env.Cache(t, plain)
	rules.Handler.OnAdd(plain, false)
	wantPending(t, c, 0)
	depth := c.loop.Inspect().Depth
	labelled := plain.DeepCopy()
	labelled.Labels, labelled.Status.Conditions = map[string]string{"a": "b"}, []metav1.Condition{{Type: "x"}}
	rules.Handler.OnUpdate(plain, labelled)
	rules.Handler.OnUpdate(plain, plain)
	if got := c.loop.Inspect().Depth; got != depth {
		t.Errorf("%d keys are queued after a change of no concern, %d before", got, depth)
	}
	env.Uncache(t, plain)
	rules.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "r", Obj: plain})
	wantPending(t, c, -1)

	env.Cache(t, plain)
	rules.Handler.OnAdd(plain, false)
	gone := claim("d", "p", "d")
	env.Uncache(t, gone)
	claims.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/d", Obj: gone})
	wantPending(t, c, -1)
	env.Cache(t, gone)
	claims.Handler.OnAdd(gone, false)
	wantPending(t, c, 0)
	claims.Handler.OnUpdate(gone, gone)
	pods.Handler.OnUpdate(pod("d"), pod("d"))
	env.Uncache(t, pod("d"))
	pods.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/pod", Obj: pod("d")})
	wantPending(t, c, -1)
	env.Cache(t, pod("d"))
	pods.Handler.OnAdd(pod("d"), false)
	wantPending(t, c, 0)
}

// The scheduler names the claim for the extended resources of a pod before it binds the pod. Pins DTE-69.
func TestAPodWithExtendedResources(t *testing.T) {
	bound, reserved := pod(), claim("d", "p", "d")
	extended(bound, reserved)
	waiting := controllertest.Changed(bound.DeepCopy(), controllertest.OnNode(""))
	env, c := fixture(t, slice("p", 1, device("d", taint("a", 5))), reserved, waiting)
	pods := &controllertest.Captured{}
	c.watchPods(pods)
	env.Cache(t, bound)
	pods.Handler.OnUpdate(waiting, bound)
	wantPending(t, c, 5)
	env.Uncache(t, bound)
	pods.Handler.OnDelete(bound)
	wantPending(t, c, -1)
}

// A pod that uses no claims may replace one that did, which the watch may show as an update. Pins DTE-42.
func TestAPodIsReplacedByOneWithoutClaims(t *testing.T) {
	env, c := taintedWorld(t)
	pods := &controllertest.Captured{}
	c.watchPods(pods)
	another := controllertest.Changed(pod(), func(p *corev1.Pod) { p.UID = "x" })
	env.Cache(t, another)
	pods.Handler.OnUpdate(pod("d"), another)
	wantPending(t, c, -1)
	env.WantEvents(t)
}

// An update of a pod without claims, of which there are most, costs nothing worth naming; one of a slice
// does not cost more with the number of claims.
func BenchmarkChanges(b *testing.B) {
	env, c := fixture(b, rule("r", "//none", noExecute))
	for n := range 10_000 {
		other := claim(fmt.Sprint("other-", n), "q", fmt.Sprint("d", n))
		env.Cache(b, other)
	}
	env.Cache(b, claim("d", "p", "d"), pod("d"))
	good, bad := slice("p", 1, device("d")), slice("p", 1, device("d", taint("a", 5)))
	b.Run("pod", func(b *testing.B) {
		b.ReportAllocs()
		p := pod()
		for b.Loop() {
			if !sameUse(p, p) {
				b.Fatal("is judged")
			}
		}
	})
	b.Run("slice", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			env.Cache(b, bad)
			c.poolChanged(poolOf(bad))
			env.Cache(b, good)
			c.poolChanged(poolOf(good))
			if len(env.Events.Events) > 0 {
				<-env.Events.Events
			}
		}
	})
}

// indexed is a cache of which nobody may ask for everything.
type indexed struct{ cache.Indexer }

func (indexed) List() []any { panic("everything is listed") }

// Pins DTE-50 and DTE-61.
func TestOnlyARuleWithoutADriverLooksAtAllClaims(t *testing.T) {
	env, c := fixture(t, claim("d", "p", "d"), pod("d"))
	using := c.using
	c.using, c.slices = indexed{c.using}, indexed{c.slices}
	for _, selected := range []string{driver + "//", driver + "/p/", driver + "/p/d"} {
		show(t, env, c, rule("r", selected, noExecute))
		wantPending(t, c, 0)
		show(t, env, c, rule("r", selected, noEffect))
		if counted, err := c.count(rule("r", selected, noEffect)); err != nil || counted.allocated != 1 {
			t.Errorf("%s: counted %+v, %v", selected, counted, err)
		}
	}
	show(t, env, c, slice("p", 1, device("d", taint("a", 5))))
	wantPending(t, c, 5)
	c.using = using
	show(t, env, c, rule("r", everything, noExecute))
	wantPending(t, c, 0)

	env.Store(t, rule("r", everything, noExecute))
	env.Intercept("patch devicetaintrules/status", func(clienttesting.Action) error {
		if c.mu.TryLock() {
			c.mu.Unlock()
			return nil
		}
		t.Error("the lock is held during the request")
		return nil
	})
	if err := c.reconcile(env.Context(), keyOf("r", "uid-of-r")); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "patch devicetaintrules/status r")
}
