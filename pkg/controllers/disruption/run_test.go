package disruption

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

// Pins PDB-7.
func TestWhatIsSent(t *testing.T) {
	b := newBench(t, budget(maxUnavailable("1")), pod("a", ownedBy("batch/v1", "Job", "gone")), pod("stale", marked("", time.Hour)))
	b.serveWidgets(t)
	b.fails(t)
	if err := b.c.reconcileStale(b.Context(), types.NamespacedName{Namespace: "n", Name: "stale"}); err != nil {
		t.Fatal(err)
	}
	// What discovery asks for is called a resource here.
	b.WantRequests(t, "get resource", "update poddisruptionbudgets/status pdb", "patch pods/status stale")
	asked := b.scales.Actions()
	if len(asked) != 1 || !asked[0].Matches("get", "jobs/scale") || asked[0].(clienttesting.GetAction).GetName() != "gone" {
		t.Errorf("scales: %v", asked)
	}
}

// heldKey is what a queue holds of a key that is retried.
func heldKey(t *testing.T, loop *reconcile.Loop[types.NamespacedName], key types.NamespacedName) []controller.LoopKey {
	t.Helper()
	return loop.Keys(func(text string) bool { return text == key.String() })
}

// A failed key is retried with a growing delay until it succeeds, and then forgotten.
func TestFailedKeysAreRetried(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		loop    func(*disruptionController) *reconcile.Loop[types.NamespacedName]
		key     types.NamespacedName
		request string
		each    int // requests of one attempt
		retries string
	}{
		"PDB-9, PDB-21: a budget": {
			func(c *disruptionController) *reconcile.Loop[types.NamespacedName] { return c.budgetLoop },
			key, "update poddisruptionbudgets/status pdb", 2, "name=disruption 5",
		},
		"PDB-11, PDB-21: a pod": {
			func(c *disruptionController) *reconcile.Loop[types.NamespacedName] { return c.staleLoop },
			podKey, "patch pods/status a", 1, "name=stale_pod_disruption 5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			const failures = 5
			b := newBench(t, budget(minAvailable("1")), pod("a", marked("", time.Hour)))
			b.RefuseIf(tc.request, boom, func(n int) bool { return n <= failures*tc.each })
			loop := tc.loop(b.c)
			b.Run(t, b.c)
			for n := range failures {
				// Each of the three loops always waits for its heartbeat, and one for a retry once it is scheduled.
				controllertest.Eventually(t, "the retry is scheduled", func() bool {
					return loop.Retries(tc.key) == n+1 && b.Clock.Waiters() == 4 && slices.ContainsFunc(heldKey(t, loop, tc.key), func(k controller.LoopKey) bool {
						return k.State == controller.KeyDelayed && k.Until.Sub(b.Clock.Now()) == 5*time.Millisecond<<n
					})
				})
				b.Clock.Step(5 * time.Millisecond << n)
			}
			controllertest.Eventually(t, "its failures are forgotten", func() bool { return loop.Retries(tc.key) == 0 })
			b.AwaitIdle(t)
			if retries := b.Series(t, "workqueue_retries_total"); !slices.Contains(retries, tc.retries) {
				t.Errorf("retries are %q, want %s", retries, tc.retries)
			}
			b.WantOnlyQueueMetrics(t)
		})
	}
}

// Nothing but the event of a pod reports its deletion. Pins PDB-29.
func TestADeletedPodIsNoticed(t *testing.T) {
	b := newBench(t, budget(minAvailable("1")), pod("a"), pod("b"), pod("c"))
	b.Run(t, b.c)
	b.EventuallyAsTimePasses(t, "two may be evicted", time.Second, func() bool { return b.stored(t).DisruptionsAllowed == 2 })
	b.AwaitIdle(t)
	b.Remove(t, pod("c"))
	b.EventuallyAsTimePasses(t, "one may be evicted", time.Second, func() bool { return b.stored(t).DisruptionsAllowed == 1 })
}

// An instance that begins sets the timers again. Pins PDB-32.
func TestTimersAreSetAgain(t *testing.T) {
	evicted := start.Add(-time.Minute)
	b := newBench(t, budget(minAvailable("1"), func(p *policyv1.PodDisruptionBudget) {
		p.Status.DisruptedPods = map[string]metav1.Time{"a": metav1.NewTime(evicted)}
	}), pod("a", marked("", time.Minute)), pod("b", marked("", time.Hour)))
	if held := heldKey(t, b.c.budgetLoop, key); len(held) != 1 || held[0].State != controller.KeyQueued {
		t.Errorf("the budget is held as %+v", held)
	}
	b.MustReconcile(t)
	for name, tc := range map[string]struct {
		loop *reconcile.Loop[types.NamespacedName]
		key  types.NamespacedName
		at   time.Time // zero means at once
	}{
		"the end of the eviction": {b.c.recheckLoop, key, evicted.Add(evictionTimeout)},
		"the mark of a pod":       {b.c.staleLoop, podKey, start.Add(time.Minute)},
		"a mark that is stale":    {b.c.staleLoop, types.NamespacedName{Namespace: "n", Name: "b"}, time.Time{}},
	} {
		if held := heldKey(t, tc.loop, tc.key); len(held) != 1 || !held[0].Until.Equal(tc.at) {
			t.Errorf("%s: held as %+v, want until %v", name, held, tc.at)
		}
	}
}

// However long the answers take, which are remembered for a second. Pins PDB-34.
func TestAnOwnerIsAskedForOnce(t *testing.T) {
	w, v := ownedBy("test.kcmd.dev/v1", "Widget", "w"), ownedBy("test.kcmd.dev/v1", "Widget", "v")
	b := newBench(t, budget(maxUnavailable("1")), pod("a", w), pod("b", w), pod("c", v), pod("d", w), pod("e", v))
	b.serveWidgets(t)
	b.serveScale(func(name string) (runtime.Object, error) {
		b.Clock.Step(scaleTTL)
		return scaleTo(types.UID(name), 100), nil
	})
	b.MustReconcile(t)
	if got := b.wrote(t).ExpectedPods; got != 200 {
		t.Errorf("%d are expected, want twice 100", got)
	}
	if asked := len(b.scales.Actions()); asked != 2 {
		t.Errorf("scales were asked for %d times, want once for each owner", asked)
	}
}

// Evictions wait for the number that may be evicted: each change of it is written at once, with one request. Pins
// PDB-36.
func TestWhatMayBeEvictedIsWrittenAtOnce(t *testing.T) {
	b := newBench(t, budget(minAvailable("1")), pod("a"), pod("b"))
	for n, tc := range []struct {
		change  func(*corev1.Pod)
		allowed int32
	}{{func(*corev1.Pod) {}, 1}, {notReady, 0}, {func(*corev1.Pod) {}, 1}, {notReady, 0}} {
		b.Cache(t, pod("b", tc.change))
		for range 2 {
			b.MustReconcile(t)
			controllertest.Eventually(t, "the cache shows the budget", func() bool {
				cached, err := b.c.budgets.PodDisruptionBudgets("n").Get("pdb")
				return err == nil && isCurrent(cached, b.stored(t))
			})
		}
		if got := b.writes(); len(got) != n+1 || got[n].DisruptionsAllowed != tc.allowed {
			t.Errorf("step %d: written: %+v", n, got)
		}
	}
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
