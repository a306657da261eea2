package disruption

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

var podKey = types.NamespacedName{Namespace: "n", Name: "a"}

// Pins PDB-20.
func TestUntilStale(t *testing.T) {
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	unmarked := func(p *corev1.Pod) { markOf(&p.Status).Status = corev1.ConditionFalse }
	for _, tc := range []struct {
		name      string
		pod       *corev1.Pod
		want      time.Duration
		candidate bool
	}{
		{"no mark", pod("a"), 0, false},
		{"just marked", pod("a", marked("EvictionByEvictionAPI", 0)), 2 * time.Minute, true},
		{"marked a while ago", pod("a", marked("PreemptionByScheduler", 90*time.Second)), 30 * time.Second, true},
		{"marked for exactly as long as it may be", pod("a", marked("", 2*time.Minute)), 0, true},
		{"marked long ago", pod("a", marked("", time.Hour)), 0, true},
		{"marked in the future", pod("a", marked("", -time.Minute)), 3 * time.Minute, true},
		{"pending", pod("a", phase(corev1.PodPending), marked("", time.Hour)), 0, true},
		{"marked by the kubelet", pod("a", marked("TerminationByKubelet", time.Hour)), 0, false},
		{"mark is off", pod("a", marked("", time.Hour), unmarked), 0, false},
		{"being deleted", pod("a", marked("", time.Hour), beingDeleted), 0, false},
		{"succeeded", pod("a", marked("", time.Hour), phase(corev1.PodSucceeded)), 0, false},
		{"failed", pod("a", marked("", time.Hour), phase(corev1.PodFailed)), 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, candidate := untilStale(tc.pod, start)
			if got != tc.want || candidate != tc.candidate {
				t.Errorf("got %v, %v, want %v, %v", got, candidate, tc.want, tc.candidate)
			}
		})
	}
}

// Pins PDB-41.
func TestUnmarkingChangesNothingElse(t *testing.T) {
	patch, err := unmarking(pod("a", marked("EvictionByEvictionAPI", time.Hour)), start)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(patch, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"metadata": map[string]any{"uid": "a", "resourceVersion": "5"},
		"status": map[string]any{
			"$setElementOrder/conditions": []any{map[string]any{"type": "Ready"}, map[string]any{"type": "DisruptionTarget"}},
			"conditions": []any{map[string]any{
				"type": "DisruptionTarget", "status": "False", "reason": nil, "message": nil, "observedGeneration": 2.0,
				"lastTransitionTime": start.Format(time.RFC3339),
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Pins PDB-20.
func TestAStaleMarkIsTakenOff(t *testing.T) {
	b := newBench(t, pod("a", marked("EvictionByEvictionAPI", time.Minute)))
	for range 2 {
		if err := b.c.reconcileStale(b.Context(), podKey); err != nil {
			t.Fatal(err)
		}
		b.Clock.Step(30 * time.Second)
	}
	if actions := b.Fake.Actions(); len(actions) != 0 {
		t.Fatalf("the API server was sent %v before the time", actions)
	}
	if err := b.c.reconcileStale(b.Context(), podKey); err != nil {
		t.Fatal(err)
	}
	actions := b.Fake.Actions()
	if len(actions) != 1 {
		t.Fatalf("the API server was sent %v", actions)
	}
	patch, ok := actions[0].(clienttesting.PatchAction)
	if !ok || patch.GetSubresource() != "status" || patch.GetName() != "a" || patch.GetPatchType() != types.StrategicMergePatchType {
		t.Errorf("the API server was sent %v", actions[0])
	}
}

// Pins PDB-20.
func TestPodsThatNeedNoUnmarking(t *testing.T) {
	b := newBench(t, pod("a"))
	for _, key := range []types.NamespacedName{podKey, {Namespace: "n", Name: "gone"}} {
		if err := b.c.reconcileStale(b.Context(), key); err != nil {
			t.Error(err)
		}
	}
	if actions := b.Fake.Actions(); len(actions) != 0 {
		t.Errorf("the API server was sent %v", actions)
	}
}

// Pins PDB-41.
func TestUnmarkingThatFails(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, tc := range []struct {
		name             string
		err              error
		fails, isRequeue bool
	}{
		{"changed meanwhile", apierrors.NewConflict(pods, "a", nil), true, true},
		{"gone meanwhile", apierrors.NewNotFound(pods, "a"), false, false},
		{"refused", apierrors.NewForbidden(pods, "a", nil), true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, pod("a", marked("", time.Hour)))
			b.Refuse("patch pods/status", tc.err)
			err := b.c.reconcileStale(b.Context(), podKey)
			if (err != nil) != tc.fails || reconcile.IsExpected(err) != tc.isRequeue {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The API server may say so because of an admission webhook: the cache shows whether a pod is gone. Pins PDB-43.
func TestAPatchDoesNotProveThatAPodIsGone(t *testing.T) {
	for name, isGone := range map[string]bool{"it is there": false, "it is gone": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, pod("a", marked("", time.Hour)))
			b.RefuseIf("patch pods/status a", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a"), func(n int) bool {
				if n == 1 && isGone {
					b.Remove(t, pod("a"))
				}
				return n == 1
			})
			b.Run(t, b.c)
			controllertest.Eventually(t, "the patch is refused", func() bool {
				_, err := b.c.pods.Pods("n").Get("a")
				return b.c.staleLoop.Inspect().Reconciled == 1 && apierrors.IsNotFound(err) == isGone
			})
			b.Requests()
			b.EventuallyAsTimePasses(t, "the pod is looked at again", time.Second, func() bool { return b.c.staleLoop.Inspect().Reconciled == 2 })
			if took := b.Clock.Since(start); took < reconcile.RecheckAfter {
				t.Errorf("it is looked at again after %v", took)
			}
			var want []string
			if !isGone {
				want = []string{"patch pods/status a"}
			}
			b.WantRequests(t, want...)
		})
	}
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
	check(2, 1) // its own write is not what the cache has to be as new as
	b.Cache(t, pod("new", func(p *corev1.Pod) { p.ResourceVersion = "6" }))
	check(2, 1)
	b.Cache(t, pod("new", beingDeleted, func(p *corev1.Pod) { p.ResourceVersion = "8" }))
	check(2, 0)
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

// Pins PDB-38.
func TestABudgetIsNotLookedAtBeforeTheCacheShowsWhatWasWritten(t *testing.T) {
	b := newBench(t, budget(minAvailable("1")), pod("a"))
	b.CompleteWrites("poddisruptionbudgets")
	b.c.writes = writes.New(b.Clock, writes.Stores{budgetResource: versioned{version: "1", asked: func() {}}})
	b.NextVersion()
	b.MustReconcile(t)
	b.wrote(t)
	if err := b.c.reconcile(b.Context(), key); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
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
