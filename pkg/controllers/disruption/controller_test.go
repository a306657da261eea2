package disruption

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

var (
	key      = types.NamespacedName{Namespace: "n", Name: "pdb"}
	inWeb    = ownedBy("apps/v1", "ReplicaSet", "web")
	conflict = apierrors.NewConflict(policyv1.Resource("poddisruptionbudgets"), "pdb", errors.New("changed"))
)

func TestReconcileAccounts(t *testing.T) {
	elsewhere := pod("elsewhere", func(p *corev1.Pod) { p.Namespace = "m" })
	other := pod("other", func(p *corev1.Pod) { p.Labels["app"] = "db" })
	for _, tc := range []struct {
		name      string
		edit      func(*policyv1.PodDisruptionBudget)
		pods      []*corev1.Pod
		want      counts
		events    []string
		condition string
	}{
		{
			name: "PDB-14b, PDB-19: an integer counts the pods, of whoever", edit: minAvailable("2"), want: counts{expected: 4, desired: 2, healthy: 3}, condition: "SufficientPods",
			pods: []*corev1.Pod{pod("a"), pod("b", ownedBy("batch/v1", "Job", "j")), pod("c"), pod("d", notReady)},
		},
		{
			name: "PDB-31: what has ended inflates the expectation", edit: minAvailable("2"), want: counts{expected: 3, desired: 2, healthy: 2}, condition: "InsufficientPods",
			pods: []*corev1.Pod{pod("a"), pod("b"), pod("c", notReady, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })},
		},
		{
			name: "PDB-14a: maxUnavailable counts replicas", edit: maxUnavailable("1"), want: counts{expected: 3, desired: 2, healthy: 2}, condition: "InsufficientPods",
			pods: []*corev1.Pod{pod("a", inWeb), pod("b", inWeb)},
		},
		{
			name: "PDB-14c: percent count replicas", edit: minAvailable("50%"), want: counts{expected: 3, desired: 2, healthy: 3}, condition: "SufficientPods",
			pods: []*corev1.Pod{pod("a", inWeb), pod("b", inWeb), pod("c", inWeb)},
		},
		{
			name: "PDB-16, PDB-30: bare pods count as healthy, and have one event", edit: maxUnavailable("1"), want: counts{expected: 3, desired: 2, healthy: 3}, condition: "SufficientPods",
			pods: []*corev1.Pod{pod("a", inWeb), pod("bare"), pod("barer")},
			events: []string{"Warning UnmanagedPods Pods selected by this PodDisruptionBudget (selector: " +
				"&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. " +
				"As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. " +
				`To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`},
		},
		{
			name: "PDB-13, PDB-24: no pods", edit: minAvailable("0"), condition: "InsufficientPods",
			events: []string{"Normal NoPods No matching pods found"},
		},
		{
			name: "PDB-14d: no rule", edit: func(*policyv1.PodDisruptionBudget) {}, pods: []*corev1.Pod{pod("a")}, want: counts{healthy: 1}, condition: "InsufficientPods",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, budget(tc.edit), replicaSet("web", 3), elsewhere, other)
			for _, p := range tc.pods {
				b.Cache(t, p)
			}
			b.MustReconcile(t)
			got := b.wrote(t)
			if diff := cmp.Diff(statusOf(budget(), tc.want, nil), got, cmpopts.IgnoreFields(got, "Conditions"), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if len(got.Conditions) != 1 || got.Conditions[0].Reason != tc.condition {
				t.Errorf("the conditions are %v", got.Conditions)
			}
			b.WantEvents(t, tc.events...)
		})
	}
}

// Pins PDB-19.
func TestReconcileWritesOnlyChanges(t *testing.T) {
	b := newBench(t, accounted(), pod("a"), pod("b"), pod("c"), pod("d"), pod("e"))
	b.MustReconcile(t)
	if got := b.writes(); len(got) != 0 {
		t.Fatalf("written: %+v", got)
	}
	b.Cache(t, pod("e", notReady))
	b.MustReconcile(t)
	if got := b.wrote(t); got.CurrentHealthy != 4 || got.DisruptionsAllowed != 1 {
		t.Errorf("got %+v", got)
	}
}

// Pins PDB-17.
func TestReconcileTakesEvictionsIntoAccount(t *testing.T) {
	ago := func(age time.Duration) metav1.Time { return metav1.NewTime(start.Add(-age)) }
	b := newBench(t, budget(minAvailable("1"), func(p *policyv1.PodDisruptionBudget) {
		p.Status.DisruptedPods = map[string]metav1.Time{"a": ago(time.Minute), "b": ago(time.Hour), "gone": ago(0)}
	}), pod("a"), pod("b"), pod("c"))
	b.CacheOf(t, &corev1.Pod{}).Bookmark("7")
	b.MustReconcile(t)
	got := b.wrote(t)
	if diff := cmp.Diff(map[string]metav1.Time{"a": ago(time.Minute)}, got.DisruptedPods); diff != "" {
		t.Error(diff)
	}
	if got.CurrentHealthy != 2 || got.DisruptionsAllowed != 1 {
		t.Errorf("got %+v", got)
	}
	want := []string{"Warning NotDeleted Pod was expected by PDB n/n to be deleted but it wasn't"}
	b.WantEvents(t, want...)
}

// An evicted pod that the cache of pods shows only later is not counted as healthy, however often the budget is
// reconciled meanwhile. Pins PDB-48.
func TestEvictionsAreKeptUntilTheCacheIsAsNew(t *testing.T) {
	b := newBench(t, budget(minAvailable("1"), func(p *policyv1.PodDisruptionBudget) {
		p.Status.DisruptedPods = map[string]metav1.Time{"new": metav1.NewTime(start)}
	}), pod("a"), pod("b"))
	b.CompleteWrites("poddisruptionbudgets")
	check := func(healthy int32, evictions int) {
		t.Helper()
		b.MustReconcile(t)
		is := controllertest.MustStored[*policyv1.PodDisruptionBudget](t, b.Env, "n", "pdb")
		if is.Status.CurrentHealthy != healthy || len(is.Status.DisruptedPods) != evictions {
			t.Errorf("got %+v, want %d healthy pods and %d evictions", is.Status, healthy, evictions)
		}
		b.Cache(t, is)
		b.Clock.Step(2 * writes.Window)
	}
	check(2, 1)
	b.Cache(t, pod("new", func(p *corev1.Pod) { p.ResourceVersion = "6" }))
	check(2, 1)
	b.Cache(t, pod("new", beingDeleted, func(p *corev1.Pod) { p.ResourceVersion = "8" }))
	check(2, 0)
}

// Pins PDB-47.
func TestAReadOfAScaleThatIsCutOffIsNotReported(t *testing.T) {
	b := newBench(t, budget(maxUnavailable("1")), pod("a", ownedBy("test.kcmd.dev/v1", "Widget", "w")))
	widget := schema.GroupVersionKind{Group: "test.kcmd.dev", Version: "v1", Kind: "Widget"}
	b.c.workloads.scales.mapper = mapperWith(widget)
	ctx, cancel := context.WithCancel(b.Context())
	b.serveScale(func(string) (runtime.Object, error) {
		cancel()
		return nil, context.Canceled
	})
	if err := b.Work(ctx, b.Key); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	b.WantEvents(t)
	if got := b.writes(); len(got) != 0 {
		t.Errorf("wrote %+v", got)
	}
}

// Pins PDB-12, PDB-14e and PDB-37.
func TestReconcilePermitsNothingIfItCannotAccount(t *testing.T) {
	allowing := func(p *policyv1.PodDisruptionBudget) {
		p.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, DisruptionsAllowed: 4, CurrentHealthy: 5, DesiredHealthy: 1, ExpectedPods: 5}
	}
	for _, tc := range []struct {
		name  string
		edit  func(*policyv1.PodDisruptionBudget)
		owner func(*corev1.Pod)
		cause string
		event string
	}{
		{
			"PDB-15a, PDB-27: a Job has no scale", maxUnavailable("1"), ownedBy("batch/v1", "Job", "gone"), "jobs.batch does not implement the scale subresource",
			"Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: jobs.batch does not implement the scale subresource",
		},
		{
			"a controller is missing", minAvailable("50%"), ownedBy("test.kcmd.dev/v1", "Widget", "gone"), `found no controllers for pod "a"`,
			`Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: found no controllers for pod "a"`,
		},
		{
			"no percentage", maxUnavailable("x"), inWeb, "invalid value for IntOrString: invalid type: string is not a percentage",
			"Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: invalid value for IntOrString: invalid type: string is not a percentage",
		},
		{
			"PDB-13: the selector is invalid", func(p *policyv1.PodDisruptionBudget) {
				p.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Is"}}}
			}, inWeb, `"Is" is not a valid label selector operator`, `Warning NoPods Failed to get pods: "Is" is not a valid label selector operator`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, budget(tc.edit, allowing), replicaSet("web", 3), pod("a", tc.owner))
			b.serveWidgets(t)
			b.fails(t)
			got := b.wrote(t)
			if got.DisruptionsAllowed != 0 || got.CurrentHealthy != 5 || got.ObservedGeneration != 2 {
				t.Errorf("got %+v", got)
			}
			if c := got.Conditions; len(c) != 1 || c[0].Reason != "SyncFailed" || c[0].Message != tc.cause || c[0].Status != metav1.ConditionFalse || c[0].ObservedGeneration != 2 {
				t.Errorf("the conditions are %+v", c)
			}
			b.WantEvents(t, tc.event)
			// It is tried again, but not written again.
			b.Cache(t, failedBudget(budget(tc.edit, allowing), errors.New(tc.cause), start))
			b.Clock.Step(time.Hour)
			b.fails(t)
			b.wrote(t)
		})
	}
}

// fails reconciles the budget n/pdb, which cannot be accounted for and so is to be tried again.
func (b *bench) fails(t testing.TB) {
	t.Helper()
	if err := b.c.reconcile(b.Context(), key); !reconcile.IsExpected(err) {
		t.Errorf("got %v, want it to be tried again", err)
	}
}

// TestABudgetThatFailedRecoversByItself pins rule 4: no event is needed.
// Pins PDB-37.
func TestABudgetThatFailedRecoversByItself(t *testing.T) {
	owned := ownedBy("test.kcmd.dev/v1", "Widget", "w")
	b := newBench(t, budget(maxUnavailable("1")), pod("a", owned), pod("b", owned))
	var mapped atomic.Bool
	late := mapperWith(schema.GroupVersionKind{Group: "test.kcmd.dev", Version: "v1", Kind: "Widget"})
	b.c.workloads.scales.mapper = lateMapper{RESTMapper: late, known: mapped.Load}
	b.serveScale(func(name string) (runtime.Object, error) {
		return &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}, Spec: autoscalingv1.ScaleSpec{Replicas: 2}}, nil
	})
	b.Run(t, b.c)
	reason := func() string {
		stored, err := b.Client.PolicyV1().PodDisruptionBudgets("n").Get(b.Context(), "pdb", metav1.GetOptions{})
		if err != nil || len(stored.Status.Conditions) == 0 {
			return ""
		}
		return stored.Status.Conditions[0].Reason
	}
	b.EventuallyAsTimePasses(t, "nothing is permitted", time.Millisecond, func() bool { return reason() == policyv1.SyncFailedReason })
	mapped.Store(true)
	b.EventuallyAsTimePasses(t, "the budget is accounted for", time.Second, func() bool { return reason() == policyv1.SufficientPodsReason })
}

// lateMapper knows nothing at first.
type lateMapper struct {
	meta.RESTMapper
	known func() bool
}

func (m lateMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if !m.known() {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// Pins PDB-12 and PDB-23.
func TestConflicts(t *testing.T) {
	for name, edit := range map[string]func(*policyv1.PodDisruptionBudget){"accounted": minAvailable("1"), "failed": maxUnavailable("x")} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, budget(edit), pod("a"))
			b.Refuse("update poddisruptionbudgets/status", conflict)
			err := b.c.reconcile(b.Context(), key)
			if !reconcile.IsExpected(err) || !apierrors.IsConflict(err) {
				t.Errorf("got %v", err)
			}
			got := b.wrote(t) // just once: a conflict is no reason to permit nothing
			if failed := got.Conditions[0].Reason == policyv1.SyncFailedReason; failed != (name == "failed") {
				t.Errorf("the condition is %v", got.Conditions[0])
			}
		})
	}
}

// Pins PDB-12.
func TestAWriteThatFailsIsFollowedByOneThatPermitsNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		failures int
		requeues bool
	}{"once": {1, true}, "twice": {2, false}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, budget(minAvailable("0")), pod("a"))
			failures := 0
			b.Fake.PrependReactor("update", "poddisruptionbudgets", func(clienttesting.Action) (bool, runtime.Object, error) {
				failures++
				return failures <= tc.failures, nil, errors.New("down")
			})
			if err := b.c.reconcile(b.Context(), key); err == nil || reconcile.IsExpected(err) != tc.requeues {
				t.Errorf("got %v", err)
			}
			got := b.writes()
			if len(got) != 2 || got[0].DisruptionsAllowed != 1 || got[1].DisruptionsAllowed != 0 || got[1].Conditions[0].Message != "down" {
				t.Errorf("written: %+v", got)
			}
		})
	}
}

func TestAMissingBudgetIsLeftAlone(t *testing.T) {
	b := newBench(t, pod("a"))
	b.MustReconcile(t)
	if actions, events := b.Fake.Actions(), b.RecordedEvents(); len(actions)+len(events) != 0 {
		t.Errorf("sent %v, events %q", actions, events)
	}
}

// versioned is a store that says how new it is.
type versioned struct {
	cache.Store
	version string
	asked   func()
}

func (v versioned) LastStoreSyncResourceVersion() string {
	v.asked()
	return v.version
}

// Pins PDB-38.
func TestABudgetIsNotLookedAtBeforeTheCacheShowsTheLastWrite(t *testing.T) {
	b := newBench(t, budget(minAvailable("1")), pod("a"))
	b.c.writes = writes.New(b.Clock, writes.Stores{budgetResource: versioned{version: "7", asked: func() {}}})
	b.c.writes.Wrote(budget(minAvailable("1")), budgetResource, "8")
	if err := b.c.reconcile(b.Context(), key); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	if got := b.writes(); len(got) != 0 {
		t.Errorf("written: %+v", got)
	}
}

// TestAWriteThatArrivesDuringTheCheckIsSeen: its echo wakes nobody, so a budget read too
// early would stay as it was written.
// Pins PDB-38.
func TestAWriteThatArrivesDuringTheCheckIsSeen(t *testing.T) {
	b := newBench(t, accounted(), pod("a"), pod("b"), pod("c"), pod("d"), pod("e"))
	b.c.writes = writes.New(b.Clock, writes.Stores{budgetResource: versioned{version: "8", asked: func() {
		b.Cache(t, accounted(func(p *policyv1.PodDisruptionBudget) { p.ResourceVersion, p.Status.DisruptionsAllowed = "8", 0 }))
	}}})
	b.c.writes.Wrote(budget(minAvailable("1")), budgetResource, "8")
	b.MustReconcile(t)
	if got := b.wrote(t); got.DisruptionsAllowed != 2 {
		t.Errorf("got %+v", got)
	}
}

// Pins PDB-39.
func TestCountsAloneAreWrittenLater(t *testing.T) {
	tight := func(healthy int32) *policyv1.PodDisruptionBudget {
		pdb := budget(minAvailable("3"))
		pdb.Status = statusOf(pdb, counts{expected: 3, desired: 3, healthy: healthy}, nil)
		setAllowed(&pdb.Status, start)
		return pdb
	}
	b := newBench(t, tight(0), pod("a"), pod("b", notReady), pod("c", notReady))
	b.MustReconcile(t) // the first at once
	if got := b.wrote(t); got.CurrentHealthy != 1 {
		t.Fatalf("got %+v", got)
	}
	b.Cache(t, tight(1))
	b.Cache(t, pod("b"))
	b.MustReconcile(t)
	b.wrote(t)
	b.Clock.Step(100 * time.Millisecond) // the rest after a while
	b.MustReconcile(t)
	if got := b.writes(); len(got) != 2 || got[1].CurrentHealthy != 2 {
		t.Fatalf("written: %+v", got)
	}
	b.Cache(t, tight(2))
	b.Cache(t, pod("c"))
	b.MustReconcile(t) // now pods that are not Ready may be evicted: at once
	if got := b.writes(); len(got) != 3 || got[2].CurrentHealthy != 3 {
		t.Fatalf("written: %+v", got)
	}
}

func (b *bench) stored(t *testing.T) policyv1.PodDisruptionBudgetStatus {
	t.Helper()
	pdb, err := b.Client.PolicyV1().PodDisruptionBudgets("n").Get(b.Context(), "pdb", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pdb.Status
}

// Pins PDB-6, PDB-10 and PDB-22.
func TestRunFollowsPodsAndTime(t *testing.T) {
	b := newBench(t, budget(minAvailable("1"), func(p *policyv1.PodDisruptionBudget) {
		p.Status.DisruptedPods = map[string]metav1.Time{"a": metav1.NewTime(start)}
	}), pod("a"), pod("b"), pod("marked", marked("", 0), func(p *corev1.Pod) { p.Labels = nil }))
	b.Run(t, b.c)
	controllertest.Eventually(t, "the budget is accounted for", func() bool { return b.stored(t).ExpectedPods == 2 })
	if got := b.stored(t); got.CurrentHealthy != 1 || got.DisruptionsAllowed != 0 {
		t.Errorf("got %+v", got)
	}
	b.EventuallyAsTimePasses(t, "the eviction is given up", time.Second, func() bool { return b.stored(t).DisruptionsAllowed == 1 })
	if age := b.Clock.Since(start); age < evictionTimeout {
		t.Errorf("it was given up after %v", age)
	}
	b.EventuallyAsTimePasses(t, "the mark is taken off", time.Second, func() bool {
		p, err := b.Client.CoreV1().Pods("n").Get(b.Context(), "marked", metav1.GetOptions{})
		return err == nil && markOf(&p.Status).Status == corev1.ConditionFalse
	})
	if err := b.Fake.Tracker().Add(pod("c")); err != nil {
		t.Fatal(err)
	}
	b.EventuallyAsTimePasses(t, "the new pod counts", time.Second, func() bool { return b.stored(t).DisruptionsAllowed == 2 })
}

// A budget whose time has come is no failure: it is not delayed by those of others, and delays none. Pins PDB-45.
func TestBudgetsWhoseTimeHasComeAreNotLimited(t *testing.T) {
	b := newBench(t)
	const many = 200 // more than the limit for all failed keys lets through at once
	for n := range many {
		if err := b.c.recheck(b.Context(), types.NamespacedName{Namespace: "n", Name: strconv.Itoa(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if depth := b.c.budgetLoop.Inspect().Depth; depth != many {
		t.Errorf("%d budgets are queued, want %d", depth, many)
	}
}

// A record that expires right now has not expired yet, and is looked at again later than now. Pins PDB-45.
func TestARecordThatExpiresNow(t *testing.T) {
	b := newBench(t)
	b.c.recheckAt(b.Key, start)
	if keys := b.c.recheckLoop.Keys(func(string) bool { return true }); len(keys) != 1 || !keys[0].Until.After(start) {
		t.Errorf("keys are %+v", keys)
	}
}

// TestRunAsksAgainForARememberedScale shows that a remembered scale is not the last word.
// Pins PDB-42.
func TestRunAsksAgainForARememberedScale(t *testing.T) {
	widget := ownedBy("test.kcmd.dev/v1", "Widget", "w")
	b := newBench(t, budget(maxUnavailable("1")), pod("a", widget))
	b.serveWidgets(t)
	b.Run(t, b.c)
	controllertest.Eventually(t, "the scale is known", func() bool { return b.stored(t).ExpectedPods == 100 })
	controllertest.Eventually(t, "the cache shows the write", func() bool {
		return b.c.writes.Fresh(budget(maxUnavailable("1"))) == nil && b.Idle()
	})
	b.serveScale(func(string) (runtime.Object, error) { return scaleTo("w", 2), nil })
	b.Clock.Step(2 * writes.Window) // or the next write waits
	// The cached answer serves the event of this pod; nothing happens after it.
	if err := b.Fake.Tracker().Add(pod("b", widget)); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the pod counts", func() bool { return b.stored(t).CurrentHealthy == 2 })
	if got := b.stored(t); got.ExpectedPods != 100 {
		t.Fatalf("the scale was asked for: %+v", got)
	}
	b.EventuallyAsTimePasses(t, "the new scale is known", 100*time.Millisecond, func() bool { return b.stored(t).DisruptionsAllowed == 1 })
}

// BenchmarkReconcile must not grow with the size of the namespace.
func BenchmarkReconcile(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		bench := newBench(b)
		for i := range size {
			name := strconv.Itoa(i)
			label := func(p *corev1.Pod) { p.Labels = map[string]string{"app": name} }
			bench.Cache(b, budget(maxUnavailable("1"), func(p *policyv1.PodDisruptionBudget) {
				p.Name, p.Spec.Selector = name, &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
			}))
			bench.Cache(b, replicaSet(name, 1))
			bench.Cache(b, pod(name, label, ownedBy(appsv1.SchemeGroupVersion.String(), "ReplicaSet", name)))
		}
		pdb := budget(maxUnavailable("1"))
		pdb.Status = statusOf(pdb, counts{expected: 10, desired: 9, healthy: 10}, nil)
		setAllowed(&pdb.Status, start)
		bench.Cache(b, pdb)
		bench.Cache(b, replicaSet("web", 10))
		for i := range 10 {
			bench.Cache(b, pod("web-"+strconv.Itoa(i), inWeb))
		}
		b.Run(strconv.Itoa(size)+"/reconcile", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bench.MustReconcile(b)
			}
			if got := bench.writes(); len(got) != 0 {
				b.Fatalf("written: %+v", got)
			}
		})
		p := pod("web-1", inWeb)
		b.Run(strconv.Itoa(size)+"/pod", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bench.c.wakeBudgets(reconcile.Fresh, p)
			}
		})
	}
}
