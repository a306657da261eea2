package disruption

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func TestWanted(t *testing.T) {
	for _, tc := range []struct {
		name     string
		edit     func(*policyv1.PodDisruptionBudget)
		expected int32
		replicas bool
		want     counts
		fails    bool
	}{
		{"PDB-14a: maxUnavailable as a number", maxUnavailable("2"), 10, true, counts{expected: 10, desired: 8}, false},
		{"PDB-14a: maxUnavailable of more than there are", maxUnavailable("20"), 10, true, counts{expected: 10}, false},
		{"PDB-14a: maxUnavailable in percent is rounded up", maxUnavailable("25%"), 10, true, counts{expected: 10, desired: 7}, false},
		{"PDB-14a: maxUnavailable of no percent", maxUnavailable("0%"), 10, true, counts{expected: 10, desired: 10}, false},
		{"PDB-14b: minAvailable as a number", minAvailable("4"), 10, false, counts{expected: 10, desired: 4}, false},
		{"PDB-14b: minAvailable of more than there are", minAvailable("12"), 10, false, counts{expected: 10, desired: 12}, false},
		{"PDB-14c: minAvailable in percent is rounded up", minAvailable("25%"), 10, true, counts{expected: 10, desired: 3}, false},
		{"PDB-14c: minAvailable in percent of nothing", minAvailable("100%"), 0, true, counts{}, false},
		{"PDB-14d: neither", func(*policyv1.PodDisruptionBudget) {}, 10, false, counts{}, false},
		{"PDB-14a: maxUnavailable comes first", func(pdb *policyv1.PodDisruptionBudget) {
			minAvailable("1")(pdb)
			maxUnavailable("1")(pdb)
		}, 10, true, counts{expected: 10, desired: 9}, false},
		{"PDB-14d: maxUnavailable that is no percentage", maxUnavailable("many"), 10, true, counts{}, true},
		{"PDB-14d: minAvailable that is no percentage", minAvailable("many"), 10, true, counts{}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := budget(tc.edit).Spec
			if got := needsReplicas(&spec); got != tc.replicas {
				t.Errorf("needs the replicas of controllers: %v", got)
			}
			got, err := wanted(&spec, tc.expected)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}

// Pins PDB-19.
func TestAllowed(t *testing.T) {
	for _, tc := range []struct {
		counts counts
		want   int32
	}{
		{counts{expected: 5, desired: 3, healthy: 5}, 2},
		{counts{expected: 5, desired: 3, healthy: 3}, 0},
		{counts{expected: 5, desired: 3, healthy: 1}, 0},
		{counts{expected: 5, desired: 0, healthy: 5}, 5},
		{counts{expected: 0, desired: 0, healthy: 5}, 0}, // only bare pods: nobody knows
		{counts{}, 0},
	} {
		if got := tc.counts.allowed(); got != tc.want {
			t.Errorf("%+v allow %d, want %d", tc.counts, got, tc.want)
		}
	}
}

// Pins PDB-17.
func TestJudgeEvictions(t *testing.T) {
	at := func(age time.Duration) metav1.Time { return metav1.NewTime(start.Add(-age)) }
	for _, tc := range []struct {
		name     string
		recorded map[string]metav1.Time
		pods     []*corev1.Pod
		older    bool
		pending  map[string]metav1.Time
		overdue  []string
		next     time.Time
	}{
		{name: "none", pods: []*corev1.Pod{pod("a")}, pending: map[string]metav1.Time{}},
		{name: "of a pod that is gone", recorded: map[string]metav1.Time{"a": at(0)}, pending: map[string]metav1.Time{}},
		{
			name: "of a pod that is being deleted", recorded: map[string]metav1.Time{"a": at(time.Hour)},
			pods: []*corev1.Pod{pod("a", beingDeleted)}, pending: map[string]metav1.Time{},
		},
		{
			name: "the first to expire is looked at next", recorded: map[string]metav1.Time{"a": at(time.Second), "b": at(time.Minute), "c": at(0)},
			pods:    []*corev1.Pod{pod("a"), pod("b"), pod("c"), pod("other")},
			pending: map[string]metav1.Time{"a": at(time.Second), "b": at(time.Minute), "c": at(0)}, next: start.Add(time.Minute),
		},
		{
			name: "PDB-22: two minutes old to the second", recorded: map[string]metav1.Time{"a": at(2 * time.Minute)},
			pods: []*corev1.Pod{pod("a")}, pending: map[string]metav1.Time{"a": at(2 * time.Minute)}, next: start,
		},
		{
			name: "older", recorded: map[string]metav1.Time{"a": at(2*time.Minute + 1), "b": at(time.Hour)},
			pods: []*corev1.Pod{pod("a"), pod("b")}, pending: map[string]metav1.Time{}, overdue: []string{"a", "b"},
		},
		{
			name: "PDB-25: from the future of a skewed clock", recorded: map[string]metav1.Time{"a": at(-time.Minute)},
			pods: []*corev1.Pod{pod("a")}, pending: map[string]metav1.Time{"a": at(-time.Minute)}, next: start.Add(3 * time.Minute),
		},
		{
			name: "PDB-48: of pods that an older cache does not show yet, and of one that has expired", older: true,
			recorded: map[string]metav1.Time{"a": at(0), "b": at(time.Minute), "c": at(2*time.Minute + 1)},
			pods:     []*corev1.Pod{pod("b", beingDeleted), pod("c", beingDeleted)},
			pending:  map[string]metav1.Time{"a": at(0), "b": at(time.Minute)}, next: start.Add(reconcile.RecheckAfter),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := judgeEvictions(tc.recorded, tc.pods, tc.older, start)
			if diff := cmp.Diff(tc.pending, got.pending); diff != "" {
				t.Errorf("pending: %s", diff)
			}
			if overdue := controllertest.Names(got.overdue); !slices.Equal(overdue, tc.overdue) {
				t.Errorf("overdue are %v, want %v", overdue, tc.overdue)
			}
			if !got.next.Equal(tc.next) {
				t.Errorf("next is %v, want %v", got.next, tc.next)
			}
		})
	}
}

// Pins PDB-18.
func TestCountHealthy(t *testing.T) {
	selected := []*corev1.Pod{
		pod("healthy"), pod("not-ready", notReady), pod("deleted", beingDeleted), pod("evicted"), pod("just-expired"),
		pod("no-condition", func(p *corev1.Pod) { p.Status.Conditions = nil }),
	}
	pending := map[string]metav1.Time{
		"evicted":      metav1.NewTime(start.Add(-evictionTimeout + time.Second)),
		"just-expired": metav1.NewTime(start.Add(-evictionTimeout)),
	}
	if got := countHealthy(selected, pending, start); got != 2 {
		t.Errorf("%d are healthy, want 2", got)
	}
}

// accounted is a budget with an up-to-date status: 3 of 5 pods wanted, all healthy.
func accounted(edit ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	pdb := budget(minAvailable("3"))
	pdb.Status = statusOf(pdb, counts{expected: 5, desired: 3, healthy: 5}, nil)
	setAllowed(&pdb.Status, start)
	for _, e := range edit {
		e(pdb)
	}
	return pdb
}

// Pins PDB-19.
func TestIsCurrentAndAnswersAlike(t *testing.T) {
	someone := map[string]metav1.Time{"a": metav1.NewTime(start)}
	for _, tc := range []struct {
		name           string
		edit           func(*policyv1.PodDisruptionBudget)
		current, alike bool
	}{
		{"the same", func(*policyv1.PodDisruptionBudget) {}, true, true},
		{"nobody disrupted, in another way", func(p *policyv1.PodDisruptionBudget) { p.Status.DisruptedPods = map[string]metav1.Time{} }, true, true},
		{"healthy", func(p *policyv1.PodDisruptionBudget) { p.Status.CurrentHealthy = 4 }, false, true},
		{"too few healthy", func(p *policyv1.PodDisruptionBudget) { p.Status.CurrentHealthy = 2 }, false, false},
		{"desired", func(p *policyv1.PodDisruptionBudget) { p.Status.DesiredHealthy = 2 }, false, true},
		{"none desired", func(p *policyv1.PodDisruptionBudget) { p.Status.DesiredHealthy = 0 }, false, false},
		{"expected", func(p *policyv1.PodDisruptionBudget) { p.Status.ExpectedPods = 6 }, false, true},
		{"allowed", func(p *policyv1.PodDisruptionBudget) { p.Status.DisruptionsAllowed = 1 }, false, false},
		{"somebody disrupted", func(p *policyv1.PodDisruptionBudget) { p.Status.DisruptedPods = someone }, false, false},
		{"a new generation", func(p *policyv1.PodDisruptionBudget) { p.Generation = 4 }, false, false},
		{"an old status", func(p *policyv1.PodDisruptionBudget) { p.Status.ObservedGeneration = 2 }, false, false},
		{"no condition", func(p *policyv1.PodDisruptionBudget) { p.Status.Conditions = nil }, false, false},
		{"another reason", func(p *policyv1.PodDisruptionBudget) {
			p.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionTrue, Reason: "Other"}}
		}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pdb, want := accounted(tc.edit), accounted().Status
			if got := isCurrent(pdb, want); got != tc.current {
				t.Errorf("current: %v", got)
			}
			if got := answersAlike(pdb, want); got != tc.alike {
				t.Errorf("answers alike: %v", got)
			}
		})
	}
}

// Pins PDB-19a.
func TestCondition(t *testing.T) {
	foreign := metav1.Condition{Type: "Other", Status: metav1.ConditionTrue}
	pdb := budget(func(p *policyv1.PodDisruptionBudget) { p.Status.Conditions = []metav1.Condition{foreign} })
	for n, step := range []struct {
		healthy int32
		fails   string
		want    string
		at      time.Duration // of the last transition
	}{
		{healthy: 4, want: "True SufficientPods:  3", at: 0},
		{healthy: 5, want: "True SufficientPods:  3", at: 0},
		{healthy: 3, want: "False InsufficientPods:  3", at: 2 * time.Minute},
		{fails: "oh no", want: "False SyncFailed: oh no 3", at: 2 * time.Minute},
		{healthy: 4, want: "True SufficientPods:  3", at: 4 * time.Minute},
		{fails: "oh", want: "False SyncFailed: oh 3", at: 5 * time.Minute},
	} {
		now := start.Add(time.Duration(n) * time.Minute)
		if step.fails != "" {
			pdb = failedBudget(pdb, errors.New(step.fails), now)
		} else {
			pdb.Status = statusOf(pdb, counts{expected: 5, desired: 3, healthy: step.healthy}, nil)
			setAllowed(&pdb.Status, now)
		}
		if len(pdb.Status.Conditions) != 2 || pdb.Status.Conditions[0] != foreign {
			t.Fatalf("step %d: the conditions are %v", n, pdb.Status.Conditions)
		}
		c := pdb.Status.Conditions[1]
		if got := fmt.Sprintf("%s %s: %s %d", c.Status, c.Reason, c.Message, c.ObservedGeneration); got != step.want {
			t.Errorf("step %d: got %q, want %q", n, got, step.want)
		}
		if !c.LastTransitionTime.Time.Equal(start.Add(step.at)) {
			t.Errorf("step %d: the last transition was at %v", n, c.LastTransitionTime)
		}
	}
}

// Pins PDB-12.
func TestAFailedBudgetKeepsWhatItObserved(t *testing.T) {
	pdb := accounted(func(p *policyv1.PodDisruptionBudget) { p.Generation = 9 })
	failed := failedBudget(pdb, errors.New("x"), start)
	want := pdb.Status.DeepCopy()
	want.DisruptionsAllowed = 0
	want.Conditions = failed.Status.Conditions
	if diff := cmp.Diff(*want, failed.Status); diff != "" {
		t.Error(diff)
	}
	if got := failed.Status.Conditions[0].ObservedGeneration; got != 3 {
		t.Errorf("the condition is of generation %d", got)
	}
	if pdb.Status.DisruptionsAllowed != 2 || pdb.Status.Conditions[0].Reason != policyv1.SufficientPodsReason {
		t.Errorf("the cached budget was changed: %+v", pdb.Status)
	}
}
