package replicas

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

// Pins RS-26.
func TestCountPods(t *testing.T) {
	template := map[string]string{"app": "a", "version": "2"}
	full := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "a", "version": "2", "more": "x"} }
	other := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "a", "version": "1"} }
	got := countPods([]*corev1.Pod{
		replicaPod("p1", full),
		replicaPod("p2", full, readySince(start.Add(-10*time.Second))),
		replicaPod("p3", other, readySince(start.Add(-9*time.Second))),
		replicaPod("p4"),
	}, template, 10, start)
	if diff := cmp.Diff(Status{Replicas: 4, FullyLabeled: 2, Ready: 2, Available: 1}, got); diff != "" {
		t.Error(diff)
	}
	if got := countPods([]*corev1.Pod{replicaPod("p1", func(p *corev1.Pod) { p.Labels = nil })}, nil, 0, start).FullyLabeled; got != 1 {
		t.Errorf("without template labels %d pods have all of them", got)
	}
}

// Pins RS-27.
func TestNextConditions(t *testing.T) {
	other := Condition{Type: "Other", Status: corev1.ConditionFalse, Message: "kept"}
	old := Condition{Type: ReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedDelete", Message: "first"}
	added := func(reason string) Condition {
		return Condition{Type: ReplicaFailure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start), Reason: reason, Message: "boom"}
	}
	boom := errors.New("boom")
	for _, test := range []struct {
		name            string
		current         []Condition
		failure         error
		active, desired int
		want            []Condition
	}{
		{"nothing happened", nil, nil, 1, 1, nil},
		{"RS-27: others stay", []Condition{other}, nil, 1, 1, []Condition{other}},
		{"RS-27: too few", []Condition{other}, boom, 1, 2, []Condition{other, added("FailedCreate")}},
		{"RS-27: too many", nil, boom, 2, 1, []Condition{added("FailedDelete")}},
		{"RS-27: still failing", []Condition{old, other}, boom, 1, 2, []Condition{old, other}},
		{"RS-27: no longer failing", []Condition{old, other}, nil, 1, 2, []Condition{other}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := slices.Clone(test.current)
			got := nextConditions(test.current, test.failure, test.active, test.desired, start)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, test.current); diff != "" {
				t.Errorf("the cached conditions were changed: %s", diff)
			}
		})
	}
}

// A conflict of a create, with which the quota is busy for example, is reported as any failure of it. That of a
// deletion, whose pod is another one, is none. Pins RS-31.
func TestReplicaFailureIsTheOnlyConditionThatIsSet(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("changed"))
	for name, test := range map[string]struct {
		replicas int32
		refused  string
		refusal  error
		want     []string
	}{
		"too few":             {2, "", nil, []string{"Other"}},
		"cannot be created":   {2, "create pods", refusal("boom"), []string{"Other", "ReplicaFailure"}},
		"busy quota":          {2, "create pods", conflict, []string{"Other", "ReplicaFailure"}},
		"as many as wanted":   {1, "", nil, []string{"Other"}},
		"cannot be deleted":   {0, "delete pods", refusal("boom"), []string{"Other", "ReplicaFailure"}},
		"another pod":         {0, "delete pods", conflict, []string{"Other"}},
		"too many":            {0, "", nil, []string{"Other"}},
		"cannot be looked at": {2, "patch pods", refusal("boom"), []string{"Other"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, lax, replicaSet(test.replicas, func(rs *appsv1.ReplicaSet) {
				rs.Generation, rs.Status.Conditions = 2, []appsv1.ReplicaSetCondition{{Type: "Other"}}
			}), replicaPod("p1"), replicaPod("stray", labeled("b")))
			if test.refused != "" {
				f.Refuse(test.refused, test.refusal)
			}
			for range 2 {
				if err := f.Reconcile(); (err != nil) != (test.refused != "") {
					t.Fatalf("got %v", err)
				}
				f.CatchUp(t)
				f.Clock.Step(writes.CountsWindow)
			}
			var got []string
			for _, c := range f.status(t).Conditions {
				got = append(got, string(c.Type))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("conditions are %q, want %q", got, test.want)
			}
		})
	}
}

// The pods could not be deleted before, and whether they can be now is not known. Pins WL-112.
func TestAConflictOfADeletionLeavesTheConditionAsItIs(t *testing.T) {
	f := newFixture(t, nil, replicaSet(0), replicaPod("p1"))
	works := f.Refuse("delete pods", refusal("boom"))
	if err := f.Reconcile(); err == nil {
		t.Fatal("no error")
	}
	worksAgain := f.Refuse("delete pods", apierrors.NewConflict(corev1.Resource("pods"), "p1", errors.New("changed")))
	for range 2 {
		f.CatchUp(t)
		if err := f.Reconcile(); !reconcile.IsRequeue(err) {
			t.Fatalf("got %v", err)
		}
		wantFailure(t, f.status(t), "FailedDelete", "unable to delete pods: boom")
	}
	worksAgain()
	works()
	f.CatchUp(t)
	f.MustReconcile(t)
	wantFailure(t, f.status(t), "", "")
}

// Pins RS-53.
func TestUrgent(t *testing.T) {
	base := Status{Replicas: 5, FullyLabeled: 5, Ready: 3, Available: 2, Terminating: ptr.To[int32](1), ObservedGeneration: 1}
	for _, test := range []struct {
		name   string
		change func(*Status)
		want   bool
	}{
		{"one more ready", func(s *Status) { s.Ready = 4 }, false},
		{"one more available", func(s *Status) { s.Available = 3 }, false},
		{"one less ready", func(s *Status) { s.Ready = 2 }, false},
		{"one more replica", func(s *Status) { s.Replicas = 6 }, false},
		{"one more terminating", func(s *Status) { s.Terminating = ptr.To[int32](2) }, false},
		{"all replicas", func(s *Status) { s.Replicas = 10 }, true},
		{"all labeled", func(s *Status) { s.FullyLabeled = 10 }, true},
		{"all ready", func(s *Status) { s.Ready = 10 }, true},
		{"all available", func(s *Status) { s.Available = 10 }, true},
		{"none terminating", func(s *Status) { s.Terminating = ptr.To[int32](0) }, true},
		{"spec observed", func(s *Status) { s.ObservedGeneration = 2 }, true},
		{"failure", func(s *Status) { s.Conditions = []Condition{{Type: ReplicaFailure}} }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			next := base
			test.change(&next)
			if got := urgent(base, next, 10, false); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
	all := Status{Replicas: 10, Ready: 10, Available: 10}
	for name, less := range map[string]Status{
		"ready":     {Replicas: 10, Ready: 9, Available: 10},
		"available": {Replicas: 10, Ready: 10, Available: 9},
	} {
		if !urgent(all, less, 10, false) {
			t.Errorf("not all are %s any more, and it is not urgent", name)
		}
	}
	if urgent(all, Status{Replicas: 9, Ready: 10, Available: 10}, 10, false) {
		t.Error("a pod that is about to be replaced is urgent")
	}
	if urgent(all, Status{Replicas: 10, Ready: 9, Available: 9}, 12, false) {
		t.Error("not all were ready, and one less is urgent")
	}
	observed := base
	observed.ObservedGeneration = 2
	if urgent(base, observed, 10, true) {
		t.Error("a spec without the counts that it causes is urgent")
	}
	if observed.Ready = 10; !urgent(base, observed, 10, true) {
		t.Error("all are ready, and it is not urgent")
	}
}

func TestStatusIsWrittenOnlyIfItSaysSomethingNew(t *testing.T) {
	upToDate := appsv1.ReplicaSetStatus{Replicas: 1, FullyLabeledReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
		TerminatingReplicas: ptr.To[int32](0), ObservedGeneration: 1}
	for _, test := range []struct {
		name   string
		change func(*appsv1.ReplicaSet)
		want   []string
	}{
		{"RS-28: up to date", func(*appsv1.ReplicaSet) {}, nil},
		{"RS-28: no conditions are no conditions", func(rs *appsv1.ReplicaSet) { rs.Status.Conditions = []appsv1.ReplicaSetCondition{} }, nil},
		{"a condition of others", func(rs *appsv1.ReplicaSet) {
			rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: "Other"}}
		}, nil},
		{"RS-28: new generation", func(rs *appsv1.ReplicaSet) { rs.Generation = 2 }, []string{"update replicasets/status"}},
		{"RS-28: replicas", func(rs *appsv1.ReplicaSet) { rs.Status.Replicas = 0 }, []string{"update replicasets/status"}},
		{"RS-28: labeled", func(rs *appsv1.ReplicaSet) { rs.Status.FullyLabeledReplicas = 0 }, []string{"update replicasets/status"}},
		{"RS-28: ready", func(rs *appsv1.ReplicaSet) { rs.Status.ReadyReplicas = 0 }, []string{"update replicasets/status"}},
		{"RS-28: available", func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas = 0 }, []string{"update replicasets/status"}},
		{"RS-28: terminating", func(rs *appsv1.ReplicaSet) { rs.Status.TerminatingReplicas = ptr.To[int32](1) }, []string{"update replicasets/status"}},
		{"RS-28: terminating unknown", func(rs *appsv1.ReplicaSet) { rs.Status.TerminatingReplicas = nil }, []string{"update replicasets/status"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			rs := replicaSet(1, func(rs *appsv1.ReplicaSet) { rs.Status = *upToDate.DeepCopy() }, test.change)
			f := newFixture(t, nil, rs, replicaPod("p1", readySince(start)))
			f.MustReconcile(t)
			f.WantRequestsInAnyOrder(t, test.want...)
			want := *upToDate.DeepCopy()
			want.ObservedGeneration, want.Conditions = rs.Generation, rs.Status.Conditions
			if diff := cmp.Diff(want, f.status(t)); diff != "" {
				t.Error(diff)
			}
			f.Queued.Want(t)
		})
	}
}

// Pins RS-17, RS-26 and WL-55.
func TestTerminatingPodsAreCountedIfToldSo(t *testing.T) {
	pods := []*corev1.Pod{
		replicaPod("counts", beingDeleted),
		replicaPod("finished", beingDeleted, inPhase(corev1.PodSucceeded)),
		replicaPod("does-not-match", beingDeleted, labeled("b")),
		replicaPod("orphan", beingDeleted, orphan),
		replicaPod("alive"),
	}
	for _, count := range []bool{true, false} {
		f := newFixture(t, func(_ *Kind[*appsv1.ReplicaSet], o *Options) { o.CountTerminating = count }, replicaSet(1))
		for _, pod := range pods {
			f.Cache(t, pod)
		}
		f.MustReconcile(t)
		f.WantRequestsInAnyOrder(t, "update replicasets/status")
		status := f.status(t)
		if status.Replicas != 1 || (status.TerminatingReplicas != nil) != count || ptr.Deref(status.TerminatingReplicas, 1) != 1 {
			t.Errorf("counting %v: %+v", count, status)
		}
	}
}

// Pins RS-53.
func TestABurstOfObservationsIsWrittenFirstAndLast(t *testing.T) {
	f := newFixture(t, lax, replicaSet(10, func(rs *appsv1.ReplicaSet) {
		rs.Status.Replicas, rs.Status.FullyLabeledReplicas = 10, 10
	}))
	for i := range 10 {
		f.Cache(t, replicaPod(string(rune('a'+i))))
	}
	becomesReady := func(names ...string) {
		for _, name := range names {
			f.Cache(t, replicaPod(name, readySince(start)))
		}
		f.MustReconcile(t)
		requests := f.Requests()
		f.Cache(t, controllertest.MustStored[*appsv1.ReplicaSet](t, f.Env, "ns", "rs"))
		if len(requests) > 1 {
			t.Fatalf("requests %v", requests)
		}
	}
	becomesReady("a")
	if got := f.status(t).ReadyReplicas; got != 1 {
		t.Fatalf("the first observation is not written: %d ready", got)
	}
	f.Queued.Want(t)
	f.Clock.Step(writes.CountsWindow / 2)
	becomesReady("b")
	f.Clock.Step(writes.CountsQuiet / 3)
	becomesReady("c")
	f.Clock.Step(writes.CountsQuiet / 3)
	becomesReady()
	if got := f.status(t).ReadyReplicas; got != 1 {
		t.Errorf("written within the window: %d ready", got)
	}
	f.Queued.Want(t, "rs in 300ms", "rs in 300ms", "rs in 200ms")
	f.Clock.Step(writes.CountsQuiet * 2 / 3)
	becomesReady()
	if got := f.status(t).ReadyReplicas; got != 3 {
		t.Errorf("the last observation is lost: %d ready", got)
	}
	becomesReady("d", "e", "f", "g", "h", "i", "j")
	if got := f.status(t).ReadyReplicas; got != 10 {
		t.Errorf("what everybody waits for is put off: %d ready", got)
	}
	f.Queued.Want(t)
}

// The pods of an owner are never as many as it has asked for: each that is created goes away.
// Pins RS-34 and RS-53.
func TestAStatusIsNotPutOffForEver(t *testing.T) {
	f := newFixture(t, lax, replicaSet(2, func(rs *appsv1.ReplicaSet) { rs.Generation = 2 }))
	for range 2 {
		f.MustReconcile(t)
		f.WantRequestsInAnyOrder(t, "create pods", "create pods")
		f.Clock.Step(writes.CountsQuiet / 2)
	}
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create pods", "create pods", "update replicasets/status")
	if got := f.status(t); got.Replicas != 0 || got.ObservedGeneration != 2 {
		t.Errorf("more is counted than the cache shows: %+v", got)
	}
}

// A failure is retried with growing delays, and reported at once.
// Pins RS-53.
func TestAFailureBeginsNoWindow(t *testing.T) {
	f := newFixture(t, lax, replicaSet(2, func(rs *appsv1.ReplicaSet) { rs.Generation = 2 }))
	f.Refuse("create pods", refusal("boom"))
	if err := f.Reconcile(); err == nil {
		t.Error("no failure")
	}
	f.WantRequestsInAnyOrder(t, "create pods", "update replicasets/status")
	f.Queued.Want(t)
}

// newest returns the owner as last written, or as cached if that is not older.
func (f *fixture) newest(cached *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	return writes.ObjectsOf[*appsv1.ReplicaSet](f.engine.owners.Writes, setResource).Newest(cached, cached)
}

// Pins RS-53.
func TestTheNextReconcileStartsFromWhatTheStatusWriteReturned(t *testing.T) {
	f := newFixture(t, lax, replicaSet(2), replicaPod("p1"), replicaPod("p2"))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "update replicasets/status")
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
	f.Cache(t, replicaPod("p1", readySince(start)), replicaPod("p2", readySince(start)))
	f.MustReconcile(t)
	if rs := f.newest(replicaSet(2)); rs.ResourceVersion != "12" || rs.Status.ReadyReplicas != 2 {
		t.Errorf("the second write was made on version 10: %s, %+v", rs.ResourceVersion, rs.Status)
	}
	if rs := f.newest(replicaSet(2, named("rs", "recreated"))); rs.UID != "recreated" {
		t.Error("a recreated owner is taken for the old one")
	}
	newer := replicaSet(3, func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = "13" })
	f.Cache(t, newer)
	if rs := f.newest(newer); rs != newer {
		t.Errorf("got version %s, the cache has 13", rs.ResourceVersion)
	}
}

// Pins RS-29.
func TestAFailedStatusWriteIsTriedOnceMoreOnTheLiveObject(t *testing.T) {
	boom := errors.New("boom")
	t.Run("succeeds", func(t *testing.T) {
		f := newFixture(t, nil, replicaSet(1, func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = "99" }))
		f.Cache(t, replicaSet(1), replicaPod("p1"))
		f.RefuseIf("update replicasets/status", boom, func(n int) bool { return n == 1 })
		f.MustReconcile(t)
		f.WantRequestsInAnyOrder(t, "get replicasets rs", "update replicasets/status", "update replicasets/status")
		if got := f.status(t).Replicas; got != 1 {
			t.Errorf("counts %d", got)
		}
		if !f.engine.owners.Writes.IsEcho(replicaSet(1, func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = "100" })) {
			t.Error("the version of the second write is not known")
		}
	})
	t.Run("fails again", func(t *testing.T) {
		f := newFixture(t, nil, replicaSet(1), replicaPod("p1"))
		f.Refuse("update replicasets/status", boom)
		if err := f.Reconcile(); !errors.Is(err, boom) {
			t.Errorf("got %v", err)
		}
		f.WantRequestsInAnyOrder(t, "get replicasets rs", "update replicasets/status", "update replicasets/status")
	})
	t.Run("WL-102: somebody else is faster both times", func(t *testing.T) {
		f := newFixture(t, nil, replicaSet(1), replicaPod("p1"))
		f.Refuse("update replicasets/status", apierrors.NewConflict(setResource, "rs", boom))
		if err := f.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsConflict(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cannot be read", func(t *testing.T) {
		f := newFixture(t, nil, replicaSet(1), replicaPod("p1"))
		f.Refuse("update replicasets/status", boom)
		gone := apierrors.NewNotFound(setResource, "rs")
		f.Refuse("get replicasets", gone)
		if err := f.Reconcile(); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("is another object by now", func(t *testing.T) {
		f := newFixture(t, nil, replicaSet(1, named("rs", "another")))
		f.Cache(t, replicaSet(1), replicaPod("p1"))
		f.RefuseIf("update replicasets/status", boom, func(n int) bool { return n == 1 })
		if err := f.Reconcile(); !reconcile.IsExpected(err) {
			t.Errorf("got %v", err)
		}
		f.WantRequestsInAnyOrder(t, "get replicasets rs", "update replicasets/status")
	})
}

// Pins RS-19.
func TestAFailedStatusWriteHidesAFailedCreation(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1))
	f.Refuse("create pods", refusal("over quota"))
	f.Refuse("update replicasets/status", errors.New("boom"))
	if err := f.Reconcile(); err == nil || err.Error() != "boom" {
		t.Errorf("got %v", err)
	}
}

// Pins WL-102.
func TestAFailedCreationIsNotHiddenByAConflict(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1))
	f.Refuse("create pods", refusal("over quota"))
	f.Refuse("update replicasets/status", apierrors.NewConflict(setResource, "rs", errors.New("old")))
	if err := f.Reconcile(); err == nil || err.Error() != "over quota" {
		t.Errorf("got %v", err)
	}
}

// Pins RS-21.
func TestPodsThatBecomeAvailableByTimeAreLookedAt(t *testing.T) {
	slow := func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 10 }
	for _, test := range []struct {
		name string
		pods []*corev1.Pod
		want []string
	}{
		{"the soonest", []*corev1.Pod{replicaPod("a", readySince(start.Add(-2*time.Second))), replicaPod("b", readySince(start))}, []string{"rs in 8s"}},
		{"nobody knows since when", []*corev1.Pod{replicaPod("a", readySince(time.Time{})), replicaPod("b")}, []string{"rs in 10s"}},
		{"all available", []*corev1.Pod{replicaPod("a", readySince(start.Add(-10*time.Second))), replicaPod("b")}, nil},
		{"none ready", []*corev1.Pod{replicaPod("a"), replicaPod("b")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, nil, replicaSet(2, slow))
			for _, pod := range test.pods {
				f.Cache(t, pod)
			}
			f.MustReconcile(t)
			f.Queued.Want(t, test.want...)
		})
	}
}

// The retry of a failure may be a quarter of an hour away. Pins RS-57.
func TestAFailureDoesNotDelayWhatBecomesAvailable(t *testing.T) {
	f := newFixture(t, nil, replicaSet(2, func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 10 }), replicaPod("p1", readySince(start)))
	f.Refuse("create pods", refusal("over quota"))
	if err := f.Reconcile(); err == nil {
		t.Error("no error")
	}
	f.Queued.Want(t, "rs in 10s")
}
