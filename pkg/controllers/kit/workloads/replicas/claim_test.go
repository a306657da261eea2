package replicas

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// Pins RS-16.
func TestAdoptsAndReleases(t *testing.T) {
	f := newFixture(t, nil, replicaSet(2),
		replicaPod("mine"), replicaPod("adopted", orphan), replicaPod("released", labeled("b")), replicaPod("stranger", orphan, labeled("b")))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "get replicasets rs", "patch pods adopted", "patch pods released", "update replicasets/status")
	f.WantEvents(t)
	if got := f.status(t).Replicas; got != 2 {
		t.Errorf("counts %d replicas", got)
	}
	for name, want := range map[string]bool{"adopted": true, "released": false} {
		pod, err := f.Fake.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := metav1.IsControlledBy(pod, replicaSet(0)); got != want {
			t.Errorf("%s is controlled: %v", name, got)
		}
	}
}

// Pins WL-26 and RS-36.
func TestFinishedAndTerminatingPodsAreLeftAlone(t *testing.T) {
	f := newFixture(t, nil, replicaSet(0),
		replicaPod("failed", inPhase(corev1.PodFailed)),
		replicaPod("done", inPhase(corev1.PodSucceeded), labeled("b")),
		replicaPod("done-orphan", inPhase(corev1.PodSucceeded), orphan),
		replicaPod("leaving", inPhase(corev1.PodSucceeded), beingDeleted, labeled("b")),
		replicaPod("leaving-orphan", beingDeleted, orphan))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
}

// Pins RS-37.
func TestAPodBeingDeletedIsReplacedAtOnce(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1), replicaPod("leaving", beingDeleted))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create pods")
	f.Queued.Want(t, "rs in 300ms") // for the status
}

// Pins RS-16 and WL-21.
func TestAnUnclearClaimStopsEverythingElse(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name           string
		verb, resource string
		pod            *corev1.Pod
		want           string
	}{
		{"owner cannot be read", "get", "replicasets", replicaPod("p", orphan), "can't adopt Pod ns/p (p): can't recheck DeletionTimestamp: boom"},
		{"adoption fails", "patch", "pods", replicaPod("p", orphan), "boom"},
		{"release fails", "patch", "pods", replicaPod("p", labeled("b")), "boom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, nil, replicaSet(5), test.pod)
			f.Refuse(test.verb+" "+test.resource, boom)
			if err := f.Reconcile(); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
			for _, request := range f.Requests() {
				if strings.HasPrefix(request, "create") || strings.HasPrefix(request, "update") {
					t.Errorf("went on to %s", request)
				}
			}
		})
	}
}

// Pins RS-55.
func TestARecreatedOwnerDoesNotAdoptThroughTheCacheOfTheOld(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1, named("rs", "another")))
	f.Cache(t, replicaSet(1), replicaPod("p", orphan))
	err := f.Reconcile()
	if want := "can't adopt Pod ns/p (p): original ReplicaSet ns/rs is gone: got uid another, wanted o"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Pins RS-18.
func TestAnOwnerBeingDeletedOnlyGetsAStatus(t *testing.T) {
	leaving := func(rs *appsv1.ReplicaSet) {
		rs.DeletionTimestamp = &metav1.Time{Time: start}
		rs.Finalizers = []string{"foregroundDeletion"}
	}
	for _, test := range []struct {
		name     string
		replicas int32
		pods     []runtime.Object
	}{
		{"too few", 5, []runtime.Object{replicaPod("p1"), replicaPod("p2", orphan), replicaPod("p3", labeled("b"))}},
		{"too many", 0, []runtime.Object{replicaPod("p1")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, nil, append([]runtime.Object{replicaSet(test.replicas, leaving)}, test.pods...)...)
			f.MustReconcile(t)
			f.WantRequestsInAnyOrder(t, "update replicasets/status")
			if got := f.status(t).Replicas; got != 1 {
				t.Errorf("counts %d replicas", got)
			}
		})
	}
}

// Pins RS-15.
func TestAnInvalidSelectorIsNotRetried(t *testing.T) {
	f := newFixture(t, nil, replicaSet(5, func(rs *appsv1.ReplicaSet) {
		rs.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Bad"}}}
	}))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
	f.Queued.Want(t)
}

// Pins RS-13.
func TestAnOwnerThatIsGoneIsForgotten(t *testing.T) {
	f := newFixture(t, nil)
	gone := replicaSet(1, named("rs", "whoever"))
	f.engine.owners.Writes.Hold(gone, writes.Timeout)
	f.engine.owners.Deleted(gone)
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t)
	if state := f.engine.owners.Writes.HandOver(); len(state) != 0 {
		t.Errorf("remembers %v", state)
	}
}

// Pins WL-46.
func TestAnAdoptionIsWaitedFor(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1, func(rs *appsv1.ReplicaSet) {
		rs.Status.Replicas, rs.Status.FullyLabeledReplicas = 1, 1
	}), replicaPod("p", orphan))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "get replicasets rs", "patch pods p")
	if version := f.engine.owners.Writes.HandOver()[key].Versions[pods.Resource]; version != "20" {
		t.Errorf("waits for %q, want the version that the patch returned", version)
	}
}

// Pins WL-46.
func TestAReleaseIsNotWaitedFor(t *testing.T) {
	f := newFixture(t, nil, replicaSet(0), replicaPod("p", labeled("b")))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "patch pods p")
	if state := f.engine.owners.Writes.HandOver(); len(state) != 0 {
		t.Errorf("waits for %v", state)
	}
}
