package statefulset

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/must"
)

// Not even a revision is created: the garbage collector would have to delete it once more. Pins STS-24, STS-84.
func TestASetThatIsBeingDeletedOnlyReports(t *testing.T) {
	f := settled(t, 1, image("v2"), edited, func(set *appsv1.StatefulSet) {
		set.DeletionTimestamp, set.Finalizers = &metav1.Time{Time: start}, []string{"foregroundDeletion"}
		set.Spec.Replicas = ptr.To[int32](3)
	})
	f.MustReconcile(t)
	f.WantRequests(t, putStatus)
	if got, want := f.status(t).UpdateRevision, revisionAt(t, 2, image("v2")).Name; got != want {
		t.Errorf("the update revision is %s, want %s", got, want)
	}
}

// Pins STS-69.
func TestMissingFieldsHaveTheirDefaults(t *testing.T) {
	bare := func(set *appsv1.StatefulSet) {
		set.Spec.Replicas, set.Spec.RevisionHistoryLimit, set.Spec.UpdateStrategy.RollingUpdate.Partition = nil, nil, nil
	}
	f := settled(t, 1, bare)
	for i := range 12 {
		name := fmt.Sprintf("r%02d", i)
		f.Cache(t, renamed(name, revisionAt(t, int64(i)-20, image(name))))
	}
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete controllerrevisions r00", "delete controllerrevisions r01") // one pod and ten revisions stay

	f = settled(t, 1, bare, image("v2"), edited)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions", "delete pods web-0", putStatus) // the partition is empty
}

// Pins STS-32.
func TestMinReadySecondsAreWaitedFor(t *testing.T) {
	f := settled(t, 1, minReady(10))
	set := newSet(1)
	f.Cache(t, podAt(set, revisionAt(t, 1).Name, 0, readySince(start.Add(-4*time.Second))))
	f.MustReconcile(t)
	f.Queued.Want(t, "web in 6s")
	if got := f.status(t); got.ReadyReplicas != 1 || got.AvailableReplicas != 0 {
		t.Errorf("status %+v", got)
	}
	f.Cache(t, podAt(set, revisionAt(t, 1).Name, 0, readySince(time.Time{})))
	f.Env.CatchUp(t, &appsv1.StatefulSet{}) // pods stay as the test cached them
	f.MustReconcile(t)
	f.Queued.Want(t, "web in 10s")
}

// The retry of a failure may be a quarter of an hour away. Pins STS-80.
func TestAFailureDoesNotDelayWhatBecomesAvailable(t *testing.T) {
	f := settled(t, 1, parallel, minReady(10), scaledTo(2))
	f.Cache(t, podAt(newSet(1), revisionAt(t, 1).Name, 0, readySince(start.Add(-4*time.Second))))
	f.Refuse("create pods", errTest)
	if err := f.Reconcile(); err == nil {
		t.Error("no error")
	}
	f.Queued.Want(t, "web in 6s")
}

// Pins STS-15.
func TestStaleCachesAreWaitedFor(t *testing.T) {
	f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](2) })
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, createWeb1)
	f.Cache(t, podAt(newSet(1), "r", 8, func(p *corev1.Pod) { p.Name, p.ResourceVersion = "unrelated", "50"; orphaned(p) }))
	err := f.Reconcile()
	if !reconcile.IsExpected(err) || !strings.HasPrefix(err.Error(), "read version: 50 is not as new as written version: 1") {
		t.Errorf("got %v", err)
	}
	f.WantRequestsInAnyOrder(t)
	if got := counter(t, f, "statefulset_controller_stale_sync_skips_total"); got != 1 {
		t.Errorf("counted %v", got)
	}
	// The successor knows too.
	f.Succeed(f.c.owners.HandOver())
	successor := must.Get(newController(f.Env.Env, defaultGates))(t)
	successor.owners.Writes.TakeOver(f.c.owners.HandOver())
	if err := successor.owners.Reconcile(f.Context(), key); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
}

// counter is the sum of the series of a metric.
func counter(t *testing.T, f *fixture, name string) float64 {
	t.Helper()
	sum := 0.0
	for _, series := range f.Series(t, name) {
		fields := strings.Fields(series)
		sum += must.Get(strconv.ParseFloat(fields[len(fields)-1], 64))(t)
	}
	return sum
}

func TestWithoutTheGateOldCachesOnlyReport(t *testing.T) {
	revision := revisionAt(t, 1)
	set := newSet(1, settledAt(revision.Name))
	f := newFixtureWith(t, config{concurrentSyncs: 1}, set, revision)
	f.c.owners.Writes.Wrote(newSet(1), pods.Resource, "99")
	f.Cache(t, podAt(set, revision.Name, 8, orphaned, func(p *corev1.Pod) { p.Name = "unrelated" }))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, putStatus)
	f.Queued.Want(t, "web in 1s")
}

// A name finds the pod again that was created, so only what the cache shows is waited for. Pins STS-57.
func TestASuccessorWaitsForPodsAndClaims(t *testing.T) {
	f := settled(t, 0, claims("data"), scaledTo(1))
	f.MustReconcile(t)
	f.WantRequests(t, "create persistentvolumeclaims data-web-0", createWeb0)
	for _, behind := range []runtime.Object{&corev1.PersistentVolumeClaim{}, &corev1.Pod{}} {
		f.CatchUp(t)
		f.EmptyCache(t, behind, "50")
		next := &fixture{Subject: f.Subject}
		next.Succeed(f.c.owners.HandOver())
		next.c = must.Get(newController(next.Env.Env, defaultGates))(t)
		next.c.owners.Queue = f.Queued
		next.c.owners.Writes.TakeOver(f.c.owners.HandOver())
		if err := next.c.owners.Reconcile(f.Context(), key); !reconcile.IsExpected(err) {
			t.Errorf("without %T: %v", behind, err)
		}
		f.WantRequests(t)
	}
	// Nothing is handed over, and the cache is behind.
	f.CatchUp(t)
	f.EmptyCache(t, &corev1.Pod{}, "50")
	f.c.owners.Writes.ForgetAll(key)
	f.Refuse("create pods", apierrors.NewAlreadyExists(pods.Resource, "web-0"))
	if err := f.Reconcile(); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	f.WantRequests(t, createWeb0)
	f.RecordedEvents()
}

// Pins STS-44.
func TestStatusConflicts(t *testing.T) {
	f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Status.ReadyReplicas = 0 })
	conflict := apierrors.NewConflict(setResource, "web", errors.New("changed"))
	conflicts := 1
	f.Fake.PrependReactor("update", "statefulsets", func(ktesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, conflict
	})
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, putStatus, "get statefulsets web", putStatus)

	conflicts = 99
	f.Clock.Step(time.Second)
	f.CatchUp(t)
	f.Cache(t, newSet(1, func(set *appsv1.StatefulSet) { set.ResourceVersion = "2000000" }))
	if err := f.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if got := len(f.Requests()); got != 9 {
		t.Errorf("%d requests", got)
	}
	conflicts = 1
	f.Refuse("get statefulsets", nil)
	f.Fake.PrependReactor("get", "statefulsets", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, newSet(1, func(set *appsv1.StatefulSet) { set.UID = "new" }), nil
	})
	if err := f.Reconcile(); !reconcile.IsExpected(err) || !strings.Contains(err.Error(), "recreated") {
		t.Errorf("got %v", err)
	}
}

// Pins STS-15.
func TestSetsThatAreGoneOrUnreadable(t *testing.T) {
	f := newFixture(t)
	f.c.owners.Writes.Hold(newSet(1), time.Hour)
	f.c.metrics.rolling(newSet(1, parallel), 1, 2)
	f.c.owners.Deleted(newSet(1))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
	if ok, _ := f.c.owners.Writes.Settled(newSet(1)); !ok {
		t.Error("something is remembered")
	}
	if got := counter(t, f, "statefulset_controller_statefulset_unavailable_replicas"); got != 0 {
		t.Errorf("a series is left: %v", got)
	}
	f = newFixture(t, newSet(1, func(set *appsv1.StatefulSet) {
		set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "?"}}}
	}))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
}

// Pins STS-68.
func TestACutOffReconcileWritesNoStatus(t *testing.T) {
	f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](2); set.Status.ReadyReplicas = 0 })
	ctx, cut := context.WithCancel(f.Context())
	f.Fake.PrependReactor("create", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		cut()
		return true, nil, context.Canceled
	})
	if err := f.Work(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.WantRequestsInAnyOrder(t, createWeb1)
	f.WantEvents(t)
}
