package disruption

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
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

// A cluster that was restored from a backup has the generation once more. Pins WL-127.
func TestReconcileCountsThePodsOfARestoredSelector(t *testing.T) {
	other := pod("other", func(p *corev1.Pod) { p.Labels["app"] = "db" })
	b := newBench(t, accounted(), pod("a"), pod("b"), pod("c"), pod("d"), pod("e"), other)
	b.MustReconcile(t)
	b.Cache(t, accounted(func(pdb *policyv1.PodDisruptionBudget) {
		pdb.ResourceVersion, pdb.Spec.Selector = "8", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	}))
	b.MustReconcile(t)
	if got := b.wrote(t); got.CurrentHealthy != 1 {
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

func TestAMissingBudgetIsLeftAlone(t *testing.T) {
	b := newBench(t, pod("a"))
	b.c.written[b.Key] = ownWrite{version: "1", evictions: "1"}
	b.MustReconcile(t)
	if actions, events := b.Fake.Actions(), b.RecordedEvents(); len(actions)+len(events) != 0 {
		t.Errorf("sent %v, events %q", actions, events)
	}
	if len(b.c.written) != 0 {
		t.Errorf("remembered is %v", b.c.written)
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
