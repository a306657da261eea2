package statefulset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
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
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
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

// Pins STS-25 and STS-25c.
func TestOrderedSetsGrowOneByOne(t *testing.T) {
	set := newSet(2, claims("data"))
	f := newFixture(t, set)
	revision := revisionAt(t, 1).Name
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions "+revision, "create persistentvolumeclaims data-web-0", createWeb0, putStatus)
	f.WantEvents(t,
		"Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
		"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful")
	if got := f.status(t); got.Replicas != 0 || got.CurrentRevision != revision || got.UpdateRevision != revision || got.ObservedGeneration != 1 {
		t.Errorf("status %+v", got)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
	f.Queued.Want(t, "web in 300ms") // one pod is there: nobody waits for that

	f.kubelet(t)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create persistentvolumeclaims data-web-1", createWeb1)
	f.Queued.Want(t, "web in 300ms")
	f.kubelet(t)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, putStatus)
	if got := f.status(t); got.Replicas != 2 || got.ReadyReplicas != 2 || got.AvailableReplicas != 2 || got.CurrentReplicas != 2 || got.UpdatedReplicas != 2 {
		t.Errorf("status %+v", got)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
}

// Pins STS-25.
func TestParallelSetsGrowAtOnce(t *testing.T) {
	f := newFixture(t, newSet(3, parallel))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions "+revisionAt(t, 1).Name, createWeb0, createWeb1, createWeb2, putStatus)
}

// Pins STS-72.
func TestAReconcileCreatesNoMoreThanItMay(t *testing.T) {
	f := settled(t, 0, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](math.MaxInt32) })
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, createWeb0)

	// An outdated pod, and one of no slot, are left alone until all are there.
	f = settled(t, 0, parallel, image("v2"), edited, startingAt(1), func(set *appsv1.StatefulSet) {
		set.Spec.Replicas = ptr.To[int32](1200)
	})
	storePods(f.Env, phase(corev1.PodPending))
	revision := revisionAt(t, 1).Name
	for _, n := range []int{0, 1200} {
		pod := podAt(newSet(1), revision, n)
		f.Store(t, pod)
		f.Cache(t, pod)
	}
	for _, want := range []map[string]int{{"create pods": 500}, {"create pods": 500}, {"create pods": 199, "delete pods": 2}} {
		f.MustReconcile(t)
		got := map[string]int{}
		for _, request := range f.Requests() {
			if what, _, ok := strings.Cut(request, " web-"); ok && strings.HasSuffix(what, " pods") {
				got[what]++
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("requests are %v, want %v", got, want)
		}
		f.RecordedEvents() // makes room for more
		f.CatchUp(t)
	}
}

// A claim that waits for the garbage collector keeps only its own pod waiting. Pins STS-72.
func TestPodsThatWaitForClaimsLeaveRoomForOthers(t *testing.T) {
	f := settled(t, 0, parallel, claims("data"), retention(retain, discard), func(set *appsv1.StatefulSet) {
		set.Spec.Replicas = ptr.To[int32](501)
	})
	for n := range 500 {
		claim := claimFor(fmt.Sprint("data-web-", n))
		claim.OwnerReferences = []metav1.OwnerReference{ref("v1", "Pod", fmt.Sprint("web-", n), "old", true)}
		f.Cache(t, claim)
	}
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create persistentvolumeclaims data-web-500", "create pods web-500")
}

// A pod that has failed is deleted also if its successor cannot be created, since the revision that it is to be at
// cannot be read. Pins STS-76.
func TestAFailedPodOfARevisionThatCannotBeReadIsDeleted(t *testing.T) {
	f := settled(t, 2, partition(3), image("v2"), edited, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](3) })
	broken := revisionAt(t, 1)
	broken.Data.Raw = []byte(`[]`)
	f.Store(t, broken)
	f.Cache(t, broken, podAt(newSet(1), broken.Name, 0, phase(corev1.PodFailed)))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions", "delete pods web-0", putStatus)
	f.CatchUp(t)
	if err := f.Reconcile(); err == nil {
		t.Error("a pod at a broken revision is created")
	}
}

// What fails for one pod for good must not keep the others from being created for good. Pins STS-75.
func TestAPodOfAParallelSetThatFailsKeepsNoOtherFromBeingCreated(t *testing.T) {
	boom := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusUnprocessableEntity, Message: "no"}}
	withClaim := newSet(3, parallel, claims("data"))
	going := newClaim(withClaim, &withClaim.Spec.VolumeClaimTemplates[0], 0)
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: start}, []string{"kubernetes.io/pvc-protection"}
	revision := revisionAt(t, 1)
	for name, test := range map[string]struct {
		objects []runtime.Object
		refused string
		fails   string
	}{
		"its labels cannot be changed": {
			[]runtime.Object{newSet(3, parallel), podAt(newSet(3), revision.Name, 0, func(pod *corev1.Pod) {
				delete(pod.Labels, appsv1.StatefulSetPodNameLabel)
			})}, "patch pods web-0", "no"},
		"it has failed and cannot be deleted": {
			[]runtime.Object{newSet(3, parallel), podAt(newSet(3), revision.Name, 0, phase(corev1.PodFailed))},
			"delete pods web-0", "no"},
		"its claim is being deleted": {[]runtime.Object{withClaim, going}, "", "pvc data-web-0 is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, append(test.objects, revision)...)
			if test.refused != "" {
				f.Refuse(test.refused, boom)
			}
			if err := f.Reconcile(); err == nil || err.Error() != test.fails {
				t.Errorf("got %v", err)
			}
			created := slices.DeleteFunc(f.Requests(), func(request string) bool {
				return !strings.HasPrefix(request, "create pods ")
			})
			slices.Sort(created)
			if want := []string{"create pods web-1", "create pods web-2"}; !slices.Equal(created, want) {
				t.Errorf("requests are %q, want %q", created, want)
			}
		})
	}
}

// Pins STS-25 and WL-67.
func TestParallelSetsStopAtAFailedBatch(t *testing.T) {
	f := settled(t, 0, parallel, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](9) })
	f.Refuse("create pods", errTest)
	err := f.Reconcile()
	if err == nil || err.Error() != "no" {
		t.Errorf("got %v", err)
	}
	f.WantRequestsInAnyOrder(t, createWeb0)
	f.WantEvents(t, "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: no")
}

// Pins STS-27.
func TestScaleDown(t *testing.T) {
	f := settled(t, 3, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods web-2")
	f.WantEvents(t, "Normal SuccessfulDelete Delete Pod web-2 in StatefulSet web successful")

	f = settled(t, 3, parallel, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods web-1", "delete pods web-2")
}

// Pins STS-62.
func TestNothingIsDoneUntilTheCacheShowsTheLastDeletion(t *testing.T) {
	f := settled(t, 3, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
	f.MustReconcile(t)
	f.Requests()
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
	f.Queued.Want(t, "web in 5m0s")
	// The pod is gone, and so is the next one.
	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods web-1", putStatus)
}

// Pins STS-25b.
func TestFailedPodsAreReplaced(t *testing.T) {
	f := settled(t, 2)
	set := newSet(2)
	f.Cache(t, podAt(set, revisionAt(t, 1).Name, 0, phase(corev1.PodFailed), notReady))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods web-0", putStatus)
}

// Pins STS-29.
func TestRollingUpdate(t *testing.T) {
	f := settled(t, 3, image("v2"), edited, partition(1))
	old, update := revisionAt(t, 1).Name, revisionAt(t, 2, image("v2")).Name
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions "+update, "delete pods web-2", putStatus)
	if got := f.status(t); got.CurrentReplicas != 2 || got.UpdatedReplicas != 0 || got.CurrentRevision != old || got.UpdateRevision != update {
		t.Errorf("status %+v", got)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
	if f.Requests(); len(f.podImages(t)) != 3 || f.podImages(t)[2] != "v2" {
		t.Errorf("images %v", f.podImages(t))
	}
	f.kubelet(t)
	f.MustReconcile(t)
	f.CatchUp(t)
	f.MustReconcile(t)
	f.kubelet(t)
	f.Clock.Step(time.Second)
	f.MustReconcile(t)
	f.CatchUp(t)
	if got := f.podImages(t); fmt.Sprint(got) != "[v1 v2 v2]" {
		t.Errorf("images %v", got)
	}
	if got := f.status(t); got.CurrentReplicas != 1 || got.UpdatedReplicas != 2 || got.CurrentRevision != old {
		t.Errorf("status %+v", got)
	}
	// A deleted pod below the partition comes back as it was.
	if err := f.Fake.CoreV1().Pods("ns").Delete(t.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
	if got := f.podImages(t); fmt.Sprint(got) != "[v1 v2 v2]" {
		t.Errorf("images %v", got)
	}
}

// The template was edited twice, so the pod that is deleted next counts neither as current nor as updated. Pins STS-71.
func TestARollingUpdateFromAnOlderOneDoesNotLowerCurrentReplicas(t *testing.T) {
	f := settled(t, 3, image("v3"), edited)
	between := revisionAt(t, 2, image("v2"))
	f.Store(t, between)
	f.Cache(t, between, podAt(newSet(3), between.Name, 2))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions", "delete pods web-2", putStatus)
	if got := f.status(t); got.CurrentReplicas != 2 || got.UpdatedReplicas != 0 {
		t.Errorf("status %+v", got)
	}
}

func (f *fixture) podImages(t *testing.T) []string {
	t.Helper()
	var images []string
	for _, pod := range controllertest.AllStored[*corev1.Pod](t, f.Env, "ns") {
		images = append(images, pod.Spec.Containers[0].Image)
	}
	return images
}

// Pins STS-28.
func TestOnDeleteLeavesPodsAlone(t *testing.T) {
	f := settled(t, 2, image("v2"), edited, onDelete)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions "+revisionAt(t, 2, image("v2")).Name, putStatus)
}

// Pins STS-29a.
func TestMaxUnavailableGate(t *testing.T) {
	cfg := defaultGates
	cfg.maxUnavailable = true
	revision := revisionAt(t, 1)
	set := newSet(4, settledAt(revision.Name), image("v2"), edited, func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromString("50%"))
	})
	objects := []runtime.Object{set, revision}
	for n := range 4 {
		objects = append(objects, podAt(set, revision.Name, n))
	}
	f := newFixtureWith(t, cfg, objects...)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions "+revisionAt(t, 2, image("v2")).Name, "delete pods web-2", "delete pods web-3", putStatus)
	if got := f.status(t); got.CurrentReplicas != 2 {
		t.Errorf("status %+v", got)
	}
}

// Pins STS-24.
func TestASetThatIsBeingDeletedOnlyReports(t *testing.T) {
	f := settled(t, 1, image("v2"), edited, func(set *appsv1.StatefulSet) {
		set.DeletionTimestamp, set.Finalizers = &metav1.Time{Time: start}, []string{"foregroundDeletion"}
		set.Spec.Replicas = ptr.To[int32](3)
	})
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create controllerrevisions "+revisionAt(t, 2, image("v2")).Name, putStatus)
}

// Pins STS-31.
func TestHistoryIsTruncated(t *testing.T) {
	limit := func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = ptr.To[int32](1) }
	f := settled(t, 1, limit)
	for i, name := range []string{"a", "b", "c", "d"} {
		f.Cache(t, renamed(name, revisionAt(t, int64(i)-9, image(name))))
	}
	set := newSet(1)
	f.Cache(t, podAt(set, "b", 0)) // its revision is live
	f.MustReconcile(t)
	want := []string{"delete controllerrevisions a", "delete controllerrevisions c", "delete pods web-0", putStatus}
	f.WantRequestsInAnyOrder(t, want...)

	// Also if something failed.
	f = settled(t, 1, limit, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](2) })
	f.Cache(t, renamed("a", revisionAt(t, -2, image("a"))), renamed("b", revisionAt(t, -1, image("b"))))
	f.Refuse("create pods", errTest)
	f.Refuse("delete controllerrevisions", errors.New("nor this"))
	err := f.Reconcile()
	if err == nil || !strings.Contains(err.Error(), "no,") || !strings.Contains(err.Error(), "nor this") {
		t.Errorf("got %v", err)
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

func TestCompletionFreesTheOldRevisionAtOnce(t *testing.T) {
	old, update := revisionAt(t, 1), revisionAt(t, 2, image("v2"))
	set := newSet(1, image("v2"), settledAt(old.Name), func(set *appsv1.StatefulSet) {
		set.Status.UpdateRevision, set.Status.UpdatedReplicas = update.Name, 0
		set.Spec.RevisionHistoryLimit = ptr.To[int32](0)
	})
	f := newFixture(t, set, old, update, podAt(set, update.Name, 0))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, putStatus, "delete controllerrevisions "+old.Name)
	if got := f.status(t); got.CurrentRevision != update.Name || got.CurrentReplicas != 1 {
		t.Errorf("status %+v", got)
	}
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
	successor, err := newController(f.Env.Env, defaultGates)
	if err != nil {
		t.Fatal(err)
	}
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
