package disruption

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

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

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

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
