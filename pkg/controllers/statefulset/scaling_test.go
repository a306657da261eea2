package statefulset

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

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
		"its name is taken": {[]runtime.Object{newSet(3, parallel), podAt(newSet(3), revision.Name, 0, func(pod *corev1.Pod) {
			pod.OwnerReferences[0].UID = "another"
		})}, "", `pods "web-0" already exists`},
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
				return !strings.HasPrefix(request, "create pods ") || request == createWeb0
			})
			slices.Sort(created)
			if want := []string{"create pods web-1", "create pods web-2"}; !slices.Equal(created, want) {
				t.Errorf("requests are %q, want %q", created, want)
			}
		})
	}
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

// Pins STS-25b.
func TestFailedPodsAreReplaced(t *testing.T) {
	f := settled(t, 2)
	set := newSet(2)
	f.Cache(t, podAt(set, revisionAt(t, 1).Name, 0, phase(corev1.PodFailed), notReady))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "delete pods web-0", putStatus)
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

// Pins STS-27.
func TestTheNextPodIsScaledDownWhenTheOneAboveIsGone(t *testing.T) {
	f := settled(t, 3, scaledTo(0))
	f.Cache(t, podAt(newSet(3), revisionAt(t, 1).Name, 2, terminating))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, putStatus)
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

// The higher pod cannot be scheduled, and the lower one, which was evicted, is nobody's to replace. Pins STS-77.
func TestAPodIsScaledDownAlthoughALowerOneHasFailed(t *testing.T) {
	f := settled(t, 2, func(set *appsv1.StatefulSet) { set.Spec.Replicas = new(int32) })
	made, revision := newSet(2), revisionAt(t, 1).Name
	f.Store(t, podAt(made, revision, 0, phase(corev1.PodFailed), notReady), podAt(made, revision, 1, phase(corev1.PodPending), notReady))
	f.CatchUp(t)
	for _, name := range []string{"web-1", "web-0"} {
		f.MustReconcile(t)
		if got := f.Requests(); !slices.Contains(got, "delete pods "+name) {
			t.Errorf("requests are %q, want the deletion of %s", got, name)
		}
		f.CatchUp(t)
	}
}
