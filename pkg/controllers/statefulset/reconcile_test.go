package statefulset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	createWeb0 = "create pods web-0"
	createWeb1 = "create pods web-1"
	createWeb2 = "create pods web-2"
	putStatus  = "update statefulsets/status web"
)

// settled makes a fixture of a set whose pods are all ready at one revision.
func settled(t testing.TB, replicas int32, changes ...setChange) *fixture {
	t.Helper()
	revision := revisionAt(t, 1)
	set := newSet(replicas, settledAt(revision.Name))
	objects := []runtime.Object{set, revision}
	for n := range int(replicas) {
		objects = append(objects, podAt(set, revision.Name, n))
	}
	for _, change := range changes {
		change(set)
	}
	return newFixture(t, objects...)
}

func TestOrderedSetsGrowOneByOne(t *testing.T) {
	set := newSet(2, claims("data"))
	f := newFixture(t, set)
	revision := revisionAt(t, 1).Name
	f.mustReconcile(t)
	f.wantRequests(t, "create controllerrevisions "+revision, "create persistentvolumeclaims data-web-0", createWeb0, putStatus)
	f.wantEvents(t,
		"Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
		"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful")
	if got := f.status(t); got.Replicas != 0 || got.CurrentRevision != revision || got.UpdateRevision != revision || got.ObservedGeneration != 1 {
		t.Errorf("status %+v", got)
	}
	f.catchUp(t)
	f.mustReconcile(t)
	f.wantRequests(t)
	f.wantQueued(t, "web in 100ms") // one pod is there: nobody waits for that

	f.kubelet(t)
	f.mustReconcile(t)
	f.wantRequests(t, "create persistentvolumeclaims data-web-1", createWeb1)
	f.wantQueued(t, "web in 100ms")
	f.kubelet(t)
	f.mustReconcile(t)
	f.wantRequests(t, putStatus)
	if got := f.status(t); got.Replicas != 2 || got.ReadyReplicas != 2 || got.AvailableReplicas != 2 || got.CurrentReplicas != 2 || got.UpdatedReplicas != 2 {
		t.Errorf("status %+v", got)
	}
	f.catchUp(t)
	f.mustReconcile(t)
	f.wantRequests(t)
}

func TestParallelSetsGrowAtOnce(t *testing.T) {
	f := newFixture(t, newSet(3, parallel))
	f.mustReconcile(t)
	f.wantRequests(t, "create controllerrevisions "+revisionAt(t, 1).Name, createWeb0, createWeb1, createWeb2, putStatus)
}

func TestParallelSetsStopAtAFailedBatch(t *testing.T) {
	f := settled(t, 0, parallel, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](9) })
	f.fail("create", "pods", errTest)
	err := f.reconcile(f.env.Context(), key)
	if err == nil || err.Error() != "no" {
		t.Errorf("got %v", err)
	}
	f.wantRequests(t, createWeb0)
	f.wantEvents(t, "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: no")
}

func TestScaleDown(t *testing.T) {
	f := settled(t, 3, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
	f.mustReconcile(t)
	f.wantRequests(t, "delete pods web-2")
	f.wantEvents(t, "Normal SuccessfulDelete Delete Pod web-2 in StatefulSet web successful")

	f = settled(t, 3, parallel, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
	f.mustReconcile(t)
	f.wantRequests(t, "delete pods web-1", "delete pods web-2")
}

func TestNothingIsDoneUntilTheCacheShowsTheLastDeletion(t *testing.T) {
	f := settled(t, 3, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
	f.mustReconcile(t)
	f.requests()
	f.mustReconcile(t)
	f.wantRequests(t)
	f.wantQueued(t, "web in 5m0s")
	// The pod is gone, and so is the next one.
	f.catchUp(t)
	f.mustReconcile(t)
	f.wantRequests(t, "delete pods web-1", putStatus)
}

func TestFailedPodsAreReplaced(t *testing.T) {
	f := settled(t, 2)
	set := newSet(2)
	f.cache(t, podAt(set, revisionAt(t, 1).Name, 0, phase(corev1.PodFailed), notReady))
	f.mustReconcile(t)
	f.wantRequests(t, "delete pods web-0", putStatus)
}

func TestRollingUpdate(t *testing.T) {
	f := settled(t, 3, image("v2"), edited, partition(1))
	old, update := revisionAt(t, 1).Name, revisionAt(t, 2, image("v2")).Name
	f.mustReconcile(t)
	f.wantRequests(t, "create controllerrevisions "+update, "delete pods web-2", putStatus)
	if got := f.status(t); got.CurrentReplicas != 2 || got.UpdatedReplicas != 0 || got.CurrentRevision != old || got.UpdateRevision != update {
		t.Errorf("status %+v", got)
	}
	f.catchUp(t)
	f.mustReconcile(t)
	if f.requests(); len(f.podImages(t)) != 3 || f.podImages(t)[2] != "v2" {
		t.Errorf("images %v", f.podImages(t))
	}
	f.kubelet(t)
	f.mustReconcile(t)
	f.catchUp(t)
	f.mustReconcile(t)
	f.kubelet(t)
	f.env.Clock.Step(time.Second)
	f.mustReconcile(t)
	f.catchUp(t)
	if got := f.podImages(t); fmt.Sprint(got) != "[v1 v2 v2]" {
		t.Errorf("images %v", got)
	}
	if got := f.status(t); got.CurrentReplicas != 1 || got.UpdatedReplicas != 2 || got.CurrentRevision != old {
		t.Errorf("status %+v", got)
	}
	// A deleted pod below the partition comes back as it was.
	if err := f.env.Fake.CoreV1().Pods("ns").Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.catchUp(t)
	f.mustReconcile(t)
	if got := f.podImages(t); fmt.Sprint(got) != "[v1 v2 v2]" {
		t.Errorf("images %v", got)
	}
}

func (f *fixture) podImages(t *testing.T) []string {
	t.Helper()
	list, err := f.env.Fake.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var images []string
	for _, pod := range list.Items {
		images = append(images, pod.Spec.Containers[0].Image)
	}
	return images
}

func TestOnDeleteLeavesPodsAlone(t *testing.T) {
	f := settled(t, 2, image("v2"), edited, onDelete)
	f.mustReconcile(t)
	f.wantRequests(t, "create controllerrevisions "+revisionAt(t, 2, image("v2")).Name, putStatus)
}

func TestMaxUnavailableGate(t *testing.T) {
	v := defaultGates
	v.maxUnavailable = true
	revision := revisionAt(t, 1)
	set := newSet(4, settledAt(revision.Name), image("v2"), edited, func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromString("50%"))
	})
	objects := []runtime.Object{set, revision}
	for n := range 4 {
		objects = append(objects, podAt(set, revision.Name, n))
	}
	f := newFixtureWith(t, v, objects...)
	f.mustReconcile(t)
	f.wantRequests(t, "create controllerrevisions "+revisionAt(t, 2, image("v2")).Name, "delete pods web-2", "delete pods web-3", putStatus)
	if got := f.status(t); got.CurrentReplicas != 2 {
		t.Errorf("status %+v", got)
	}
}

func TestASetThatIsBeingDeletedOnlyReports(t *testing.T) {
	f := settled(t, 1, image("v2"), edited, func(set *appsv1.StatefulSet) {
		set.DeletionTimestamp, set.Finalizers = &metav1.Time{Time: start}, []string{"foregroundDeletion"}
		set.Spec.Replicas = ptr.To[int32](3)
	})
	f.mustReconcile(t)
	f.wantRequests(t, "create controllerrevisions "+revisionAt(t, 2, image("v2")).Name, putStatus)
}

func TestHistoryIsTruncated(t *testing.T) {
	limit := func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = ptr.To[int32](1) }
	f := settled(t, 1, limit)
	for i, name := range []string{"a", "b", "c", "d"} {
		f.cache(t, renamed(name, revisionAt(t, int64(i)-9, image(name))))
	}
	set := newSet(1)
	f.cache(t, podAt(set, "b", 0)) // its revision is live
	f.mustReconcile(t)
	want := []string{"delete controllerrevisions a", "delete controllerrevisions c", "delete pods web-0", putStatus}
	f.wantRequests(t, want...)

	// Also if something failed.
	f = settled(t, 1, limit, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](2) })
	f.cache(t, renamed("a", revisionAt(t, -2, image("a"))), renamed("b", revisionAt(t, -1, image("b"))))
	f.fail("create", "pods", errTest)
	f.fail("delete", "controllerrevisions", errors.New("nor this"))
	err := f.reconcile(f.env.Context(), key)
	if err == nil || !strings.Contains(err.Error(), "no,") || !strings.Contains(err.Error(), "nor this") {
		t.Errorf("got %v", err)
	}
}

func TestCompletionFreesTheOldRevisionAtOnce(t *testing.T) {
	old, update := revisionAt(t, 1), revisionAt(t, 2, image("v2"))
	set := newSet(1, image("v2"), settledAt(old.Name), func(set *appsv1.StatefulSet) {
		set.Status.UpdateRevision, set.Status.UpdatedReplicas = update.Name, 0
		set.Spec.RevisionHistoryLimit = ptr.To[int32](0)
	})
	f := newFixture(t, set, old, update, podAt(set, update.Name, 0))
	f.mustReconcile(t)
	f.wantRequests(t, putStatus, "delete controllerrevisions "+old.Name)
	if got := f.status(t); got.CurrentRevision != update.Name || got.CurrentReplicas != 1 {
		t.Errorf("status %+v", got)
	}
}

func TestMinReadySecondsAreWaitedFor(t *testing.T) {
	f := settled(t, 1, minReady(10))
	set := newSet(1)
	f.cache(t, podAt(set, revisionAt(t, 1).Name, 0, readySince(start.Add(-4*time.Second))))
	f.mustReconcile(t)
	f.wantQueued(t, "web in 6s")
	if got := f.status(t); got.ReadyReplicas != 1 || got.AvailableReplicas != 0 {
		t.Errorf("status %+v", got)
	}
	f.cache(t, podAt(set, revisionAt(t, 1).Name, 0, readySince(time.Time{})))
	f.showSet(t)
	f.mustReconcile(t)
	f.wantQueued(t, "web in 10s")
}

// showSet makes only the set current, so that pods stay as the test cached them.
func (f *fixture) showSet(t *testing.T) {
	t.Helper()
	sets, err := f.env.Fake.AppsV1().StatefulSets("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	replace(t, f.store(&appsv1.StatefulSet{}), sets.Items)
}

func TestStaleCachesAreWaitedFor(t *testing.T) {
	f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](2) })
	f.mustReconcile(t)
	f.wantRequests(t, createWeb1)
	f.cache(t, podAt(newSet(1), "r", 8, func(p *corev1.Pod) { p.Name, p.ResourceVersion = "unrelated", "50"; orphaned(p) }))
	err := f.reconcile(f.env.Context(), key)
	if !reconcile.IsRequeue(err) || !strings.HasPrefix(err.Error(), "read version: 50 is not as new as written version: 1") {
		t.Errorf("got %v", err)
	}
	f.wantRequests(t)
	if got := counter(t, f, "statefulset_controller_stale_sync_skips_total"); got != 1 {
		t.Errorf("counted %v", got)
	}
	// The successor knows too.
	env := f.env.Env
	env.Metrics = nil
	successor, err := newController(env, defaultGates)
	if err != nil {
		t.Fatal(err)
	}
	successor.tracker.Adopt(f.HandOver())
	if err := successor.sync(f.env.Context(), key); !reconcile.IsRequeue(err) {
		t.Errorf("got %v", err)
	}
}

func counter(t *testing.T, f *fixture, name string) float64 {
	t.Helper()
	families, err := f.env.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, metric := range family.Metric {
			if family.GetName() == name {
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestWithoutTheGateOldCachesOnlyReport(t *testing.T) {
	revision := revisionAt(t, 1)
	set := newSet(1, settledAt(revision.Name))
	f := newFixtureWith(t, value{concurrentSyncs: 1}, set, revision)
	f.tracker.Wrote(key, "o", pods.Resource, "99")
	f.cache(t, podAt(set, revision.Name, 8, orphaned, func(p *corev1.Pod) { p.Name = "unrelated" }))
	f.mustReconcile(t)
	f.wantRequests(t, putStatus)
	f.wantQueued(t, "web in 1s")
}

func TestStatusConflicts(t *testing.T) {
	f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Status.ReadyReplicas = 0 })
	conflict := apierrors.NewConflict(setResource, "web", errors.New("changed"))
	conflicts := 1
	f.env.Fake.PrependReactor("update", "statefulsets", func(ktesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, conflict
	})
	f.mustReconcile(t)
	f.wantRequests(t, putStatus, "get statefulsets web", putStatus)

	conflicts = 99
	f.env.Clock.Step(time.Second)
	f.catchUp(t)
	f.cache(t, newSet(1, func(set *appsv1.StatefulSet) { set.ResourceVersion = "2000000" }))
	if err := f.reconcile(f.env.Context(), key); !reconcile.IsRequeue(err) || !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if got := len(f.requests()); got != 9 {
		t.Errorf("%d requests", got)
	}
	conflicts = 1
	f.fail("get", "statefulsets", nil)
	f.env.Fake.PrependReactor("get", "statefulsets", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, newSet(1, func(set *appsv1.StatefulSet) { set.UID = "new" }), nil
	})
	if err := f.reconcile(f.env.Context(), key); !reconcile.IsRequeue(err) || !strings.Contains(err.Error(), "recreated") {
		t.Errorf("got %v", err)
	}
}

func TestSetsThatAreGoneOrUnreadable(t *testing.T) {
	f := newFixture(t)
	f.tracker.Hold(key, "o", time.Hour)
	f.metrics.rolling(newSet(1, parallel), 1, 2)
	f.mustReconcile(t)
	f.wantRequests(t)
	if ok, _ := f.tracker.Settled(key, "o"); !ok {
		t.Error("something is remembered")
	}
	if got := counter(t, f, "statefulset_controller_statefulset_unavailable_replicas"); got != 0 {
		t.Errorf("a series is left: %v", got)
	}
	f = newFixture(t, newSet(1, func(set *appsv1.StatefulSet) {
		set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "?"}}}
	}))
	f.mustReconcile(t)
	f.wantRequests(t)
}

func TestACutOffReconcileWritesNoStatus(t *testing.T) {
	f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](2); set.Status.ReadyReplicas = 0 })
	ctx, cut := context.WithCancel(f.env.Context())
	f.env.Fake.PrependReactor("create", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		cut()
		return true, nil, context.Canceled
	})
	if err := f.reconcile(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.wantRequests(t, createWeb1)
	f.wantEvents(t)
}
