package replicas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func lax(_ *Kind[*appsv1.ReplicaSet], o *Options) { o.RequireFresh = false }

func repeat(request string, n int) []string { return slices.Repeat([]string{request}, n) }

func TestCreatesWhatIsMissing(t *testing.T) {
	f := newFixture(t, nil, replicaSet(3), replicaPod("p1"))
	f.mustReconcile(t)
	// The status counts what was there before; the new pods count when the cache shows them.
	f.wantRequests(t, "create pods", "create pods", "update replicasets/status")
	f.wantEvents(t, "Normal SuccessfulCreate Created pod: rs-1", "Normal SuccessfulCreate Created pod: rs-2")
	if got := f.status(t).Replicas; got != 1 {
		t.Errorf("counts %d replicas", got)
	}
	f.catchUp(t)
	f.mustReconcile(t)
	if got := f.status(t).Replicas; got != 3 {
		t.Errorf("counts %d replicas", got)
	}
	pod, err := f.env.Fake.CoreV1().Pods("ns").Get(t.Context(), "rs-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ref := metav1.GetControllerOf(pod); ref == nil || *ref.BlockOwnerDeletion != true || ref.UID != "o" || ref.APIVersion != "apps/v1" || ref.Kind != "ReplicaSet" || ref.Name != "rs" {
		t.Errorf("controlled by %v", ref)
	}
}

func TestActsOnAtMostABurst(t *testing.T) {
	f := newFixture(t, nil, replicaSet(burst+100))
	f.mustReconcile(t)
	f.wantRequests(t, repeat("create pods", burst)...)

	objects := []runtime.Object{replicaSet(10)}
	for i := range burst + 100 {
		objects = append(objects, replicaPod(fmt.Sprint("p", i)))
	}
	f = newFixture(t, nil, objects...)
	f.mustReconcile(t)
	if got := len(slices.DeleteFunc(f.requests(), func(r string) bool { return r[:11] != "delete pods" })); got != burst {
		t.Errorf("deleted %d", got)
	}
}

func TestDoesNothingWhileTheCacheIsOlderThanItsOwnWrites(t *testing.T) {
	f := newFixture(t, nil, replicaSet(2))
	if err := f.podsIn.Replace(nil, "50"); err != nil {
		t.Fatal(err)
	}
	f.mustReconcile(t)
	f.wantRequests(t, "create pods", "create pods")

	err := f.reconcile(f.env.Context(), key)
	if want := "read version: 50 is not as new as written version: 1002 for group resource pods"; !reconcile.IsRequeue(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if !slices.Equal(f.stale, []schema.GroupResource{pods.Resource}) {
		t.Errorf("counted %v", f.stale)
	}
	f.wantRequests(t)
	f.catchUp(t)
	f.mustReconcile(t)
	f.wantRequests(t, "update replicasets/status")
}

func TestItsOwnStatusWriteIsWaitedForToo(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1), replicaPod("p1"))
	f.mustReconcile(t)
	f.wantRequests(t, "update replicasets/status")
	err := f.reconcile(f.env.Context(), key)
	if want := "read version: 10 is not as new as written version: 11 for group resource replicasets.apps"; !reconcile.IsRequeue(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestWithoutTheGateAStaleCacheStillUpdatesTheStatus(t *testing.T) {
	f := newFixture(t, lax, replicaSet(2))
	if err := f.podsIn.Replace(nil, "50"); err != nil {
		t.Fatal(err)
	}
	f.mustReconcile(t)
	f.wantRequests(t, "create pods", "create pods")
	f.wantQueued(t)

	early := replicaPod("rs-1")
	early.ResourceVersion = "1001"
	f.cache(t, early)
	f.mustReconcile(t)
	f.wantRequests(t, "update replicasets/status")
	f.wantQueued(t, "rs in 1s")
	if len(f.stale) != 0 {
		t.Errorf("counted %v", f.stale)
	}
}

func TestDeletesSurplusInOrderOfPreference(t *testing.T) {
	f := newFixture(t, nil, replicaSet(2),
		replicaPod("good", readySince(start.Add(-time.Hour))),
		replicaPod("better", readySince(start.Add(-100*time.Hour))),
		replicaPod("not-ready"),
		replicaPod("unassigned", func(p *corev1.Pod) { p.Spec.NodeName = "" }),
	)
	f.mustReconcile(t)
	f.wantRequests(t, "delete pods not-ready", "delete pods unassigned", "update replicasets/status")
}

func TestDeletionsAreNotRepeatedBeforeTheCacheShowsThem(t *testing.T) {
	f := newFixture(t, lax, replicaSet(1), replicaPod("p1"), replicaPod("p2", readySince(start)))
	f.mustReconcile(t)
	f.wantRequests(t, "delete pods p1", "update replicasets/status")
	f.cache(t, replicaPod("p2", func(p *corev1.Pod) { p.ResourceVersion = "30" }))
	f.mustReconcile(t)
	if got := f.requests(); slices.Contains(got, "delete pods p2") || slices.Contains(got, "delete pods p1") {
		t.Errorf("deleted again: %v", got)
	}
	f.cache(t, replicaPod("p1", beingDeleted), replicaSet(0, func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = "99" }))
	f.mustReconcile(t)
	if got := f.requests(); !slices.Contains(got, "delete pods p2") {
		t.Errorf("does not go on: %v", got)
	}
}

func TestAPodThatIsGoneAlreadyIsNoFailure(t *testing.T) {
	f := newFixture(t, nil, replicaSet(0, func(rs *appsv1.ReplicaSet) { rs.Status.Replicas, rs.Status.FullyLabeledReplicas = 1, 1 }), replicaPod("p1"))
	f.failing("delete", "pods", "", apierrors.NewNotFound(pods.Resource, "p1"))
	f.mustReconcile(t)
	f.wantRequests(t, "delete pods p1")
	f.wantEvents(t)
	f.mustReconcile(t)
	f.wantRequests(t)
}

func TestAFailedDeletionIsReportedAndTriedAgain(t *testing.T) {
	f := newFixture(t, nil, replicaSet(0), replicaPod("p1"))
	works := f.failing("delete", "pods", "", errors.New("boom"))
	for range 2 {
		err := f.reconcile(f.env.Context(), key)
		if err == nil || err.Error() != "unable to delete pods: boom" {
			t.Fatalf("got %v", err)
		}
		f.catchUp(t)
	}
	f.wantEvents(t, "Warning FailedDelete Error deleting: boom", "Warning FailedDelete Error deleting: boom")
	wantFailure(t, f.status(t), "FailedDelete", "unable to delete pods: boom")
	works()
	f.mustReconcile(t)
	f.wantRequests(t, "delete pods p1", "update replicasets/status")
	wantFailure(t, f.status(t), "", "")
}

func TestAFailedCreationIsTriedOnceAndReported(t *testing.T) {
	f := newFixture(t, nil, replicaSet(100))
	works := f.failing("create", "pods", "", errors.New("over quota"))
	if err := f.reconcile(f.env.Context(), key); err == nil || err.Error() != "over quota" {
		t.Fatalf("got %v", err)
	}
	f.wantRequests(t, "create pods", "update replicasets/status")
	f.wantEvents(t, "Warning FailedCreate Error creating: over quota")
	wantFailure(t, f.status(t), "FailedCreate", "over quota")

	// The condition stays as it is while creations fail, and goes with the failure.
	f.catchUp(t)
	f.failing("create", "pods", "", errors.New("still over quota"))
	if err := f.reconcile(f.env.Context(), key); err == nil {
		t.Fatal("no error")
	}
	f.wantRequests(t, "create pods")
	f.env.Fake.ReactionChain = f.env.Fake.ReactionChain[1:]
	works()
	f.mustReconcile(t)
	wantFailure(t, f.status(t), "", "")
}

func wantFailure(t *testing.T, status appsv1.ReplicaSetStatus, reason, message string) {
	t.Helper()
	var got appsv1.ReplicaSetCondition
	for _, c := range status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure {
			got = c
		}
	}
	if got.Reason != reason || got.Message != message || (got.Status == corev1.ConditionTrue) != (reason != "") {
		t.Errorf("failure condition is %+v, want %s: %s", got, reason, message)
	}
}

func TestAFailedCreationDoesNotHideThoseThatSucceeded(t *testing.T) {
	f := newFixture(t, nil, replicaSet(10))
	if err := f.podsIn.Replace(nil, "50"); err != nil {
		t.Fatal(err)
	}
	f.failingAfter("create", "pods", 1, errors.New("boom"))
	if err := f.reconcile(f.env.Context(), key); err == nil || err.Error() != "boom" {
		t.Fatalf("got %v", err)
	}
	if err := f.tracker.Fresh(key, replicaSet(10).UID); err == nil {
		t.Error("the pod that was created is not waited for")
	}
}

func TestIdlesWhileTheNamespaceIsGoing(t *testing.T) {
	f := newFixture(t, nil, replicaSet(100))
	going := apierrors.NewForbidden(pods.Resource, "", errors.New("going"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	works := f.failing("create", "pods", "", going)
	f.mustReconcile(t)
	f.wantRequests(t, "create pods")
	f.mustReconcile(t)
	f.env.Clock.Step(expectations.Timeout - time.Second)
	f.mustReconcile(t)
	f.wantRequests(t)
	f.wantEvents(t)
	f.wantQueued(t)

	works()
	f.cache(t, replicaSet(1, named("rs", "another")))
	f.mustReconcile(t)
	f.wantRequests(t, "create pods")
}

func TestWhatWasCutOffIsNoFailureOfThePods(t *testing.T) {
	f := newFixture(t, nil, replicaSet(3))
	fenced := errors.New("fenced")
	ctx, cancel := context.WithCancelCause(f.env.Context())
	cancel(fenced)
	if err := f.reconcile(ctx, key); !errors.Is(err, fenced) {
		t.Errorf("got %v", err)
	}
	f.wantRequests(t)
	f.wantEvents(t)
}

func TestRanksVictimsByRelatedPods(t *testing.T) {
	for _, test := range []struct {
		name    string
		related func(*appsv1.ReplicaSet) (map[string]int, error)
		want    string
	}{
		{"crowded node first", func(*appsv1.ReplicaSet) (map[string]int, error) { return map[string]int{"n1": 1, "n2": 2}, nil }, "delete pods older"},
		{"unknown", func(*appsv1.ReplicaSet) (map[string]int, error) { return nil, errors.New("boom") }, "delete pods younger"},
		{"none", nil, "delete pods younger"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, func(k *Kind[*appsv1.ReplicaSet], _ *Options) { k.RelatedByNode = test.related }, replicaSet(1),
				replicaPod("younger", on("n1"), createdAt(start.Add(-time.Second))),
				replicaPod("older", on("n2"), createdAt(start.Add(-time.Hour))))
			f.mustReconcile(t)
			f.wantRequests(t, test.want, "update replicasets/status")
		})
	}
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func createdAt(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
}

func TestAgeRatios(t *testing.T) {
	aged := func(name string, age time.Duration) *corev1.Pod {
		return replicaPod(name, createdAt(start.Add(-age)), readySince(start.Add(-age)))
	}
	notReady := replicaPod("n", createdAt(start.Add(-time.Second)))
	for _, test := range []struct {
		name   string
		active []*corev1.Pod
		n      int
		want   []float64
	}{
		{"whole multiples of the youngest ready", []*corev1.Pod{aged("a", 25*time.Second), aged("b", 10*time.Second)}, 2, []float64{2, 1}},
		{"victims only", []*corev1.Pod{aged("a", 25*time.Second), aged("b", 10*time.Second)}, 1, []float64{2}},
		{"pods that are not ready neither count nor are counted", []*corev1.Pod{notReady, aged("a", 20*time.Second)}, 2, []float64{1}},
		{"the youngest has no age", []*corev1.Pod{aged("a", 25*time.Second), aged("b", 0)}, 2, nil},
		{"the youngest is less than a millisecond old", []*corev1.Pod{aged("a", time.Second), aged("b", 999*time.Microsecond)}, 2, nil},
		{"from the future", []*corev1.Pod{aged("a", 4*time.Second), aged("b", -2*time.Second)}, 2, []float64{-2, 1}},
		{"none ready", []*corev1.Pod{notReady}, 1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ageRatios(test.active, test.n, start); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestAgeRatiosAreReportedWhenThereWasAChoice(t *testing.T) {
	old := func(p *corev1.Pod) { createdAt(start.Add(-time.Hour))(p); readySince(start.Add(-time.Hour))(p) }
	f := newFixture(t, nil, replicaSet(1), replicaPod("p1", old), replicaPod("p2", old))
	f.mustReconcile(t)
	if !slices.Equal(f.ratios, []float64{1}) {
		t.Errorf("got %v", f.ratios)
	}
	f = newFixture(t, nil, replicaSet(0), replicaPod("p1", old))
	f.mustReconcile(t)
	if f.ratios != nil {
		t.Errorf("got %v", f.ratios)
	}
}

func TestTheSuccessorWaitsForThePredecessorsWrites(t *testing.T) {
	f := newFixture(t, lax, replicaSet(2))
	if err := f.podsIn.Replace(nil, "50"); err != nil {
		t.Fatal(err)
	}
	f.mustReconcile(t)
	f.wantRequests(t, "create pods", "create pods")

	handedOver := f.HandOver()
	f.env.Predecessor = func() any { return handedOver }
	f.env.Metrics = metrics.NewKubeRegistry()
	next, err := New(f.env.Env, testKind(f.env), Options{Queue: "test", CountTerminating: true})
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := next.Run(stopped); err != nil {
		t.Fatal(err)
	}
	if err := next.reconcile(f.env.Context(), key); err != nil {
		t.Fatal(err)
	}
	f.wantRequests(t)
}
