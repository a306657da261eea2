package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

func lax(_ *Kind[*appsv1.ReplicaSet], o *Options) { o.RequireFresh = false }

func repeat(request string, n int) []string { return slices.Repeat([]string{request}, n) }

// Pins RS-23 and RS-53.
func TestCreatesWhatIsMissing(t *testing.T) {
	f := newFixture(t, nil, replicaSet(3), replicaPod("p1"))
	f.MustReconcile(t)
	// The status waits for the events of the new pods.
	f.WantRequestsInAnyOrder(t, "create pods", "create pods")
	f.Queued.Want(t, "rs in 300ms")
	f.WantEvents(t, "Normal SuccessfulCreate Created pod: rs-1", "Normal SuccessfulCreate Created pod: rs-2")
	f.CatchUp(t)
	f.MustReconcile(t)
	if got := f.status(t).Replicas; got != 3 {
		t.Errorf("counts %d replicas", got)
	}
	pod, err := f.Fake.CoreV1().Pods("ns").Get(t.Context(), "rs-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ref := metav1.GetControllerOf(pod); ref == nil || *ref.BlockOwnerDeletion != true || ref.UID != "o" || ref.APIVersion != "apps/v1" || ref.Kind != "ReplicaSet" || ref.Name != "rs" {
		t.Errorf("controlled by %v", ref)
	}
}

// Pins RS-5, RS-23 and RS-24.
func TestActsOnAtMostABurst(t *testing.T) {
	f := newFixture(t, nil, replicaSet(burst+100))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, repeat("create pods", burst)...)

	objects := []runtime.Object{replicaSet(10)}
	for i := range burst + 100 {
		objects = append(objects, replicaPod(fmt.Sprint("p", i)))
	}
	f = newFixture(t, nil, objects...)
	f.MustReconcile(t)
	if got := len(slices.DeleteFunc(f.Requests(), func(r string) bool { return r[:11] != "delete pods" })); got != burst {
		t.Errorf("deleted %d", got)
	}
}

// Pins RS-22.
func TestOnlyActivePodsAreCompared(t *testing.T) {
	for _, test := range []struct {
		name     string
		replicas int32
		pods     []*corev1.Pod
		want     []string
	}{
		{"one is missing", 2, []*corev1.Pod{replicaPod("p1"), replicaPod("failed", inPhase(corev1.PodFailed)), replicaPod("leaving", beingDeleted)},
			[]string{"create pods"}},
		{"one is surplus", 1, []*corev1.Pod{replicaPod("p1"), replicaPod("p2", readySince(start)), replicaPod("done", inPhase(corev1.PodSucceeded))},
			[]string{"delete pods p1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, nil, replicaSet(test.replicas))
			for _, pod := range test.pods {
				f.Store(t, pod)
			}
			f.CatchUp(t)
			f.MustReconcile(t)
			if got := f.podWrites(); !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("requests are %q, want %q", got, test.want)
			}
		})
	}
}

// podWrites takes the requests so far and returns those that create or delete pods.
func (f *fixture) podWrites() []string {
	return slices.DeleteFunc(f.Requests(), func(request string) bool {
		return !strings.HasPrefix(request, "create pods ") && !strings.HasPrefix(request, "delete pods ")
	})
}

// Pins RS-25.
func TestWithAsManyPodsAsWantedNothingIsDoneOrRemembered(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1, func(rs *appsv1.ReplicaSet) { rs.Status.Replicas, rs.Status.FullyLabeledReplicas = 1, 1 }),
		replicaPod("p1"))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
	f.Queued.Want(t)
	if state := f.engine.owners.Writes.HandOver(); len(state) != 0 {
		t.Errorf("waits for %v", state)
	}
}

// Pins RS-12.
func TestDoesNothingWhileTheCacheIsOlderThanItsOwnWrites(t *testing.T) {
	f := newFixture(t, nil, replicaSet(2))
	f.EmptyCache(t, &corev1.Pod{}, "50")
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create pods", "create pods")

	err := f.Reconcile()
	if want := "read version: 50 is not as new as written version: 1002 for group resource pods"; !reconcile.IsExpected(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if !slices.Equal(f.stale, []schema.GroupResource{pods.Resource}) {
		t.Errorf("counted %v", f.stale)
	}
	f.WantRequestsInAnyOrder(t)
	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "update replicasets/status")
}

// Pins RS-20 and WL-46.
func TestItsOwnStatusWriteIsWaitedForToo(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1), replicaPod("p1"))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "update replicasets/status")
	err := f.Reconcile()
	if want := "read version: 10 is not as new as written version: 11 for group resource replicasets.apps"; !reconcile.IsExpected(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Pins RS-51.
func TestWithoutTheGateAStaleCacheStillUpdatesTheStatus(t *testing.T) {
	f := newFixture(t, lax, replicaSet(2))
	f.EmptyCache(t, &corev1.Pod{}, "50")
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create pods", "create pods")
	f.Queued.Want(t)
	f.Clock.Step(writes.CountsWindow)

	early := replicaPod("rs-1")
	early.ResourceVersion = "1001"
	f.Cache(t, early)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "update replicasets/status")
	f.Queued.Want(t, "rs in 1s")
	if len(f.stale) != 0 {
		t.Errorf("counted %v", f.stale)
	}
}

// Pins RS-24.
func TestDeletesSurplusInOrderOfPreference(t *testing.T) {
	f := newFixture(t, nil, replicaSet(2),
		replicaPod("good", readySince(start.Add(-time.Hour))),
		replicaPod("better", readySince(start.Add(-100*time.Hour))),
		replicaPod("not-ready"),
		replicaPod("unassigned", func(p *corev1.Pod) { p.Spec.NodeName = "" }),
	)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods not-ready", "delete pods unassigned", "update replicasets/status")
}

// Pins RS-51.
func TestDeletionsAreNotRepeatedBeforeTheCacheShowsThem(t *testing.T) {
	f := newFixture(t, lax, replicaSet(1), replicaPod("p1"), replicaPod("p2", readySince(start)))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods p1", "update replicasets/status")
	f.Cache(t, replicaPod("p2", func(p *corev1.Pod) { p.ResourceVersion = "30" }))
	f.MustReconcile(t)
	if got := f.Requests(); slices.Contains(got, "delete pods p2") || slices.Contains(got, "delete pods p1") {
		t.Errorf("deleted again: %v", got)
	}
	f.Cache(t, replicaPod("p1", beingDeleted), replicaSet(0, func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = "99" }))
	f.MustReconcile(t)
	if got := f.Requests(); !slices.Contains(got, "delete pods p2") {
		t.Errorf("does not go on: %v", got)
	}
}

// It is unknown whether a deletion was carried out, and another pod would be chosen now. Pins WL-97.
func TestNoOtherPodIsDeletedInPlaceOfOneThatMayBe(t *testing.T) {
	f := newFixture(t, lax, replicaSet(1), replicaPod("p1"), replicaPod("p2", readySince(start)))
	answers := f.Refuse("delete pods", io.ErrUnexpectedEOF)
	if err := f.Reconcile(); err == nil {
		t.Fatal("got no error")
	}
	f.WantRequestsInAnyOrder(t, "delete pods p1", "update replicasets/status")
	answers()
	f.CatchUp(t)
	f.Cache(t, replicaPod("p1", readySince(start), func(p *corev1.Pod) { p.ResourceVersion = "30" }))
	f.Cache(t, replicaPod("p2", func(p *corev1.Pod) { p.ResourceVersion = "31" }))
	f.MustReconcile(t)
	if got := f.Requests(); slices.Contains(got, "delete pods p2") {
		t.Errorf("another pod is deleted: %v", got)
	}
	f.Clock.Step(reconcile.RecheckAfter)
	f.MustReconcile(t)
	if got := f.Requests(); !slices.Contains(got, "delete pods p2") {
		t.Errorf("does not go on: %v", got)
	}
}

// Pins RS-24.
func TestAPodThatIsGoneAlreadyIsNoFailure(t *testing.T) {
	f := newFixture(t, nil, replicaSet(0, func(rs *appsv1.ReplicaSet) { rs.Status.Replicas, rs.Status.FullyLabeledReplicas = 1, 1 }), replicaPod("p1"))
	f.Refuse("delete pods", apierrors.NewNotFound(pods.Resource, "p1"))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods p1")
	f.WantEvents(t)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
}

// recorder keeps events by their objects.
type recorder struct {
	record.EventRecorder
	events map[runtime.Object][]string
}

// Event implements record.EventRecorder.
func (r recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.events[object] = append(r.events[object], fmt.Sprint(eventType, " ", reason, " ", message))
}

// Pins RS-30.
func TestEachWriteOfAPodIsAnEventOfTheOwner(t *testing.T) {
	for _, test := range []struct {
		name     string
		replicas int32
		refused  string
		want     string
	}{
		{"created", 1, "", "Normal SuccessfulCreate Created pod: rs-1"},
		{"not created", 1, "create pods", "Warning FailedCreate Error creating: boom"},
		{"deleted", 0, "", "Normal SuccessfulDelete Deleted pod: p"},
		{"not deleted", 0, "delete pods", "Warning FailedDelete Error deleting: boom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rs := replicaSet(test.replicas)
			f := newFixture(t, nil, rs)
			if test.replicas == 0 {
				f.Cache(t, replicaPod("p"))
				f.Store(t, replicaPod("p"))
			}
			if test.refused != "" {
				f.Refuse(test.refused, refusal("boom"))
			}
			got := map[runtime.Object][]string{}
			f.engine.podControl.Untracked.Events = recorder{events: got}
			if err := f.Reconcile(); (err != nil) != (test.refused != "") {
				t.Fatalf("got %v", err)
			}
			if want := []string{test.want}; !slices.Equal(got[rs], want) || len(got) > 1 {
				t.Errorf("events are %q, want %q", got, want)
			}
		})
	}
}

// Pins RS-24 and RS-27.
func TestAFailedDeletionIsReportedAndTriedAgain(t *testing.T) {
	f := newFixture(t, nil, replicaSet(0), replicaPod("p1"))
	works := f.Refuse("delete pods", refusal("boom"))
	for range 2 {
		err := f.Reconcile()
		if err == nil || err.Error() != "unable to delete pods: boom" {
			t.Fatalf("got %v", err)
		}
		f.CatchUp(t)
	}
	f.WantEvents(t, "Warning FailedDelete Error deleting: boom", "Warning FailedDelete Error deleting: boom")
	wantFailure(t, f.status(t), "FailedDelete", "unable to delete pods: boom")
	works()
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods p1", "update replicasets/status")
	wantFailure(t, f.status(t), "", "")
}

// The cache shows a pod that was deleted and created again under its name. Pins WL-112.
func TestTheSuccessorOfAPodIsNotDeletedInItsPlace(t *testing.T) {
	f := newFixture(t, nil, replicaSet(0), replicaPod("p1", withUID("a")))
	f.Store(t, replicaPod("p1", withUID("b")))
	f.Intercept("delete pods", func(action ktesting.Action) error {
		if uid := action.(ktesting.DeleteActionImpl).DeleteOptions.Preconditions; uid == nil || *uid.UID == "b" {
			return nil
		}
		return apierrors.NewConflict(pods.Resource, "p1", errors.New("other UID"))
	})
	for range 2 { // nothing is waited for
		if err := f.Reconcile(); !reconcile.IsExpected(err) {
			t.Fatalf("got %v", err)
		}
		if got := f.Requests(); !slices.Contains(got, "delete pods p1") {
			t.Errorf("requests are %q", got)
		}
		f.Env.CatchUp(t, &appsv1.ReplicaSet{})
	}
	f.WantEvents(t)
	wantFailure(t, f.status(t), "", "")
	if pod := controllertest.MustStored[*corev1.Pod](t, f.Env, "ns", "p1"); pod.UID != "b" {
		t.Errorf("the pod is %s", pod.UID)
	}
}

func withUID(uid types.UID) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = uid } }

// refusal is an answer of the API server which says that nothing was done.
func refusal(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden, Message: message}}
}

// losesAnswers makes the API server carry out creations of pods without an answer, until it answers again.
func (f *fixture) losesAnswers(t *testing.T) (answers func()) {
	t.Helper()
	lost := true
	f.Intercept("create pods", func(action ktesting.Action) error {
		if !lost {
			return nil
		}
		pod := replicaPod("lost", func(p *corev1.Pod) { p.ResourceVersion = f.NextVersion() })
		if err := f.Fake.Tracker().Create(action.GetResource(), pod, pod.Namespace); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	})
	return func() { lost = false }
}

// Pins RS-39 and WL-115.
func TestNoOtherPodIsCreatedInPlaceOfOneThatMayBe(t *testing.T) {
	for name, lose := range map[string]func(*fixture, *testing.T) (answers func()){
		"there is one":  (*fixture).losesAnswers,
		"there is none": func(f *fixture, _ *testing.T) func() { return f.Refuse("create pods", io.ErrUnexpectedEOF) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil, replicaSet(2), replicaPod("p1"))
			answers := lose(f, t)
			if err := f.Reconcile(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("got %v", err)
			}
			f.WantRequestsInAnyOrder(t, "create pods", "update replicasets/status")
			answers()
			f.Env.CatchUp(t, &appsv1.ReplicaSet{})
			f.Clock.Step(time.Second)
			if err := f.Reconcile(); !errors.Is(err, writes.ErrUncertain) {
				t.Fatalf("got %v", err)
			}
			f.WantRequestsInAnyOrder(t)
			wantFailure(t, f.status(t), "FailedCreate", io.ErrUnexpectedEOF.Error())

			f.Clock.Step(reconcile.RecheckAfter - time.Second)
			f.CatchUp(t)
			f.MustReconcile(t)
			all := controllertest.AllStored[*corev1.Pod](t, f.Env, "ns")
			if len(all) != 2 {
				t.Errorf("pods are %q", controllertest.Names(all))
			}
			wantFailure(t, f.status(t), "", "")
		})
	}
}

// A webhook that cannot be called is called before anything is stored. Pins WL-115.
func TestACreationThatIsKnownToHaveFailedIsTriedAgainAtOnce(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1))
	f.Refuse("create pods", apierrors.NewInternalError(errors.New("failed calling webhook")))
	for range 2 {
		if err := f.Reconcile(); !apierrors.IsInternalError(err) {
			t.Fatalf("got %v", err)
		}
		if got := f.Requests(); !slices.Contains(got, "create pods rs-") {
			t.Errorf("requests are %q", got)
		}
		f.CatchUp(t)
	}
	f.Queued.Want(t)
}

// Pins RS-27 and RS-40.
func TestAFailedCreationIsTriedOnceAndReported(t *testing.T) {
	f := newFixture(t, nil, replicaSet(100))
	works := f.Refuse("create pods", refusal("over quota"))
	if err := f.Reconcile(); err == nil || err.Error() != "over quota" {
		t.Fatalf("got %v", err)
	}
	f.WantRequestsInAnyOrder(t, "create pods", "update replicasets/status")
	f.WantEvents(t, "Warning FailedCreate Error creating: over quota")
	wantFailure(t, f.status(t), "FailedCreate", "over quota")

	// The condition stays as it is while creations fail, and goes with the failure.
	f.CatchUp(t)
	worksAgain := f.Refuse("create pods", refusal("still over quota"))
	if err := f.Reconcile(); err == nil {
		t.Fatal("no error")
	}
	f.WantRequestsInAnyOrder(t, "create pods")
	worksAgain()
	works()
	f.MustReconcile(t)
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
	f.EmptyCache(t, &corev1.Pod{}, "50")
	f.RefuseIf("create pods", refusal("boom"), func(n int) bool { return n > 1 })
	if err := f.Reconcile(); err == nil || err.Error() != "boom" {
		t.Fatalf("got %v", err)
	}
	if err := f.engine.owners.Writes.Fresh(replicaSet(10)); err == nil {
		t.Error("the pod that was created is not waited for")
	}
}

// Pins RS-23, WL-29 and WL-116.
func TestIdlesWhileTheNamespaceIsGoing(t *testing.T) {
	f := newFixture(t, nil, replicaSet(100))
	going := apierrors.NewForbidden(pods.Resource, "", errors.New("going"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	works := f.Refuse("create pods", going)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create pods")
	f.Queued.Want(t, "rs in 5m0s")
	f.MustReconcile(t)
	f.Clock.Step(writes.Timeout - time.Second)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
	f.WantEvents(t)
	f.Queued.Want(t, "rs in 5m0s", "rs in 1s")

	works()
	f.Cache(t, replicaSet(1, named("rs", "another")))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create pods")
}

// There is no event when the wait is over. Pins WL-115.
func TestGoesOnOnceItIsKnownWhatThereIs(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1))
	f.RefuseIf("create pods", io.ErrUnexpectedEOF, func(n int) bool { return n == 1 })
	f.engine.owners.Queue = f.engine.owners.Loop
	f.Start(t)
	f.Run(t, f.engine)
	began := f.Clock.Now()
	f.EventuallyAsTimePasses(t, "there is a pod", time.Second, func() bool {
		return len(controllertest.AllStored[*corev1.Pod](t, f.Env, "ns")) == 1
	})
	if waited := f.Clock.Since(began); waited < reconcile.RecheckAfter {
		t.Errorf("it was created after %s", waited)
	}
}

// The API server may refuse because of a namespace that is gone, while there is another of its name. Pins WL-116.
func TestGoesOnInANamespaceThatWasMadeAnew(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1))
	going := apierrors.NewForbidden(pods.Resource, "", errors.New("going"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	f.RefuseIf("create pods", going, func(n int) bool { return n == 1 })
	f.engine.owners.Queue = f.engine.owners.Loop
	f.Start(t)
	f.Run(t, f.engine)
	f.EventuallyAsTimePasses(t, "there is a pod", 10*time.Second, func() bool {
		return len(controllertest.AllStored[*corev1.Pod](t, f.Env, "ns")) == 1
	})
}

// Pins RS-54.
func TestWhatWasCutOffIsNoFailureOfThePods(t *testing.T) {
	f := newFixture(t, nil, replicaSet(3))
	fenced := errors.New("fenced")
	ctx, cancel := context.WithCancelCause(f.Context())
	cancel(fenced)
	if err := f.Work(ctx, key); !errors.Is(err, fenced) {
		t.Errorf("got %v", err)
	}
	f.WantRequestsInAnyOrder(t)
	f.WantEvents(t)
}

// Pins RS-24.
func TestRanksVictimsByRelatedPods(t *testing.T) {
	for _, test := range []struct {
		name    string
		related func(*appsv1.ReplicaSet) (map[string]int, error)
		want    string
	}{
		{"crowded node first", func(*appsv1.ReplicaSet) (map[string]int, error) { return map[string]int{"n1": 1, "n2": 2}, nil }, "delete pods older"},
		{"the related pods are unknown", func(*appsv1.ReplicaSet) (map[string]int, error) { return nil, errors.New("boom") }, "delete pods younger"},
		{"RS-42: no related pods", nil, "delete pods younger"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, func(k *Kind[*appsv1.ReplicaSet], _ *Options) { k.RelatedByNode = test.related }, replicaSet(1),
				replicaPod("younger", on("n1"), createdAt(start.Add(-time.Second))),
				replicaPod("older", on("n2"), createdAt(start.Add(-time.Hour))))
			f.MustReconcile(t)
			f.WantRequestsInAnyOrder(t, test.want)
			f.Queued.Want(t, "rs in 300ms") // for the status
		})
	}
}

// A pod that is deleted does not make its node less crowded for the pods after it. Pins RS-43.
func TestOneNodeCanLoseAllItsPods(t *testing.T) {
	crowds := func(k *Kind[*appsv1.ReplicaSet], _ *Options) {
		k.RelatedByNode = func(*appsv1.ReplicaSet) (map[string]int, error) { return map[string]int{"n1": 3, "n2": 2}, nil }
	}
	f := newFixture(t, crowds, replicaSet(2), replicaPod("a1", on("n1")), replicaPod("b1", on("n2")), replicaPod("a2", on("n1")),
		replicaPod("b2", on("n2")), replicaPod("a3", on("n1")))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods a1", "delete pods a2", "delete pods a3")
}

// Pins RS-32 and RS-41.
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

// Pins RS-32.
func TestAgeRatiosAreReportedWhenThereWasAChoice(t *testing.T) {
	old := func(p *corev1.Pod) { createdAt(start.Add(-time.Hour))(p); readySince(start.Add(-time.Hour))(p) }
	f := newFixture(t, nil, replicaSet(1), replicaPod("p1", old), replicaPod("p2", old))
	f.MustReconcile(t)
	if !slices.Equal(f.ratios, []float64{1}) {
		t.Errorf("got %v", f.ratios)
	}
	f = newFixture(t, nil, replicaSet(0), replicaPod("p1", old))
	f.MustReconcile(t)
	if f.ratios != nil {
		t.Errorf("got %v", f.ratios)
	}
}

// Pins RS-45 and WL-104.
func TestTheSuccessorWaitsForThePredecessorsWrites(t *testing.T) {
	f := newFixture(t, lax, replicaSet(2))
	f.EmptyCache(t, &corev1.Pod{}, "50")
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create pods", "create pods")
	if err := f.succeed(t).Reconcile(f.Context(), key); err != nil {
		t.Fatal(err)
	}
	f.WantRequestsInAnyOrder(t)
}

// Pins RS-45.
func TestTheSuccessorDeletesNoOtherPodInstead(t *testing.T) {
	f := newFixture(t, lax, replicaSet(1), replicaPod("p1"), replicaPod("p2", readySince(start)))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods p1", "update replicasets/status")
	f.Cache(t, replicaPod("p2", func(p *corev1.Pod) { p.ResourceVersion, p.Status.Phase = "30", corev1.PodPending }))
	if err := f.succeed(t).Reconcile(f.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := f.podWrites(); len(got) != 0 {
		t.Errorf("requests are %q", got)
	}
}

// The delayed keys of the predecessor are gone. Pins RS-45.
func TestTheSuccessorKnowsWhenPodsBecomeAvailable(t *testing.T) {
	rs := replicaSet(1, func(rs *appsv1.ReplicaSet) {
		rs.Spec.MinReadySeconds = 10
		rs.Status.Replicas, rs.Status.FullyLabeledReplicas, rs.Status.ReadyReplicas = 1, 1, 1
	})
	f := newFixture(t, nil, rs, replicaPod("p1", readySince(start)))
	f.MustReconcile(t)
	f.Queued.Want(t, "rs in 10s")
	f.Clock.Step(3 * time.Second)
	next := f.succeed(t)
	next.Queue = f.Queued
	if err := next.Reconcile(f.Context(), key); err != nil {
		t.Fatal(err)
	}
	f.Queued.Want(t, "rs in 7s")
}

// succeed returns the owners of an instance that has taken over.
func (f *fixture) succeed(t *testing.T) *owners.Owners[*appsv1.ReplicaSet] {
	t.Helper()
	f.Succeed(f.engine.owners.HandOver())
	next := New(f.Env.Env, testKind(f.Env), Options{Queue: "test", CountTerminating: true})
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := next.Run(stopped); err != nil {
		t.Fatal(err)
	}
	return next.owners
}

// A pod that may exist in addition is no reason to keep surplus ones. Pins WL-115.
func TestPodsAreDeletedWhileOneMayHaveBeenCreated(t *testing.T) {
	f := newFixture(t, nil, replicaSet(3), replicaPod("p1"), replicaPod("p2"))
	f.Refuse("create pods", io.ErrUnexpectedEOF)
	if err := f.Reconcile(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v", err)
	}
	f.WantRequestsInAnyOrder(t, "create pods", "update replicasets/status")
	f.CatchUp(t)
	set := controllertest.MustStored[*appsv1.ReplicaSet](t, f.Env, "ns", "rs")
	set.Spec.Replicas = ptr.To[int32](1)
	f.Store(t, set)
	f.CatchUp(t)
	f.MustReconcile(t)
	if got := f.Requests(); !slices.ContainsFunc(got, func(r string) bool { return strings.HasPrefix(r, "delete pods ") }) {
		t.Errorf("requests are %q", got)
	}
}

// An admission webhook changes the labels of each new pod, so that it would be released, and another one made. Pins WL-125.
func TestPodsThatAreNotSelectedAreNotMadeWithoutEnd(t *testing.T) {
	f := newFixture(t, nil, replicaSet(3))
	f.Intercept("create pods", func(action ktesting.Action) error {
		action.(ktesting.CreateAction).GetObject().(*corev1.Pod).Labels = map[string]string{"app": "other"}
		return nil
	})
	created := 0
	for range 15 {
		_ = f.Reconcile()
		for _, request := range f.Requests() {
			if strings.HasPrefix(request, "create pods") {
				created++
			}
		}
		f.CatchUp(t)
		f.Clock.Step(time.Second)
	}
	if created != 2 {
		t.Errorf("%d pods were created in 15 s, want one in 10 s", created)
	}
	if left := controllertest.AllStored[*corev1.Pod](t, f.Env, key.Namespace); len(left) != 0 {
		t.Errorf("%d pods are left", len(left))
	}
	if c := f.status(t).Conditions; len(c) != 1 || c[0].Reason != "FailedCreate" || !strings.Contains(c[0].Message, "admission webhook") {
		t.Errorf("conditions are %v", c)
	}
}
