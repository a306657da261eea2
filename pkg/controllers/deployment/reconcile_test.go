package deployment

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// Pins DEP-34.
func TestNothingToDoWritesNothing(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 10, current))
	for range 2 { // to let it settle
		h.reconcile(t)
	}
	h.wantProgress(t, "NewReplicaSetAvailable")
	h.reconcile(t)
	h.WantRequests(t)
}

// Pins DEP-23d.
func TestFoundReplicaSetIsNotedOnce(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 10, current, observed(10, 0, 0)))
	h.reconcile(t)
	// The pods are progress against the empty status.
	h.WantRequests(t, "update deployments/status")
	h.wantProgress(t, "ReplicaSetUpdated")

	h = newHarness(t, makeDeployment(10, counts(10, 10, 0, 0)), makeSet(1, 10, current, observed(10, 0, 0)))
	h.reconcile(t)
	h.wantProgress(t, "FoundNewReplicaSet")
	if c := findCondition(h.deployment(t).Status.Conditions, "Progressing"); c.Message != `Found new replica set "web-1"` {
		t.Errorf("message is %q", c.Message)
	}
}

// Pins DEP-28.
func TestARolloutScalesUpTheNewAndDownTheOld(t *testing.T) {
	h := newHarness(t, makeDeployment(10, image("v2")), makeSet(1, 10, current))
	h.reconcile(t)
	name := hashName(h.deployment(t))
	// 3 of surge at once, and 2 that may be unavailable in the same reconcile.
	h.WantRequests(t, "create replicasets", "update replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set "+name+" from 0 to 3",
		"Normal ScalingReplicaSet Scaled down replica set web-1 from 10 to 8")
	if d := h.deployment(t); d.Annotations[revisionAnnotation] != "2" {
		t.Errorf("revision is %q, want 2", d.Annotations[revisionAnnotation])
	}
	h.reconcile(t)
	h.WantRequests(t, "update replicasets")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set "+name+" from 3 to 5")
}

// Pins DEP-57.
func TestSyncAndRolloutInOneReconcile(t *testing.T) {
	// The new ReplicaSet needs a higher revision and a larger size: the second write
	// builds on what the first returned.
	h := newHarness(t, makeDeployment(10, rolling("3", "0")), makeSet(1, 1, current), makeSet(4, 9, current, observed(9, 9, 9)))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "update replicasets", "update deployments/status")
	rs := h.set(t, "web-1")
	if sizeOf(rs) != 4 || rs.Annotations[revisionAnnotation] != "5" || rs.Annotations[revisionHistoryAnnotation] != "1" {
		t.Errorf("size %d, annotations %v", sizeOf(rs), rs.Annotations)
	}
	if got := h.deployment(t).Annotations[revisionAnnotation]; got != "5" {
		t.Errorf("revision is %s, want 5", got)
	}
}

// Pins DEP-13.
func TestEmptySelectorIsRefused(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{} }), makeSet(1, 3))
	for _, want := range [][]string{{"update deployments/status"}, nil} {
		h.reconcile(t)
		h.WantRequests(t, want...)
		h.WantEvents(t, "Warning SelectingAll This deployment is selecting all pods. A non-empty selector is required.")
	}
	if s := h.deployment(t).Status; s.ObservedGeneration != 1 || s.Replicas != 0 {
		t.Errorf("status is %+v", s)
	}
}

// Pins DEP-70.
func TestAnEmptySelectorIsRefusedAgainUntilThatIsWritten(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{} }))
	boom := errors.New("boom")
	h.RefuseIf("update deployments/status", boom, func(n int) bool { return n == 1 })
	h.CatchUp(t)
	if err := h.Reconcile(); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	h.reconcile(t)
	if got := h.deployment(t).Status.ObservedGeneration; got != 1 {
		t.Errorf("the observed generation is %d", got)
	}
}

// Pins DEP-16.
func TestDeletedDeploymentOnlyReports(t *testing.T) {
	deleted := func(d *appsv1.Deployment) {
		d.DeletionTimestamp, d.Finalizers = ptr.To(metav1.NewTime(now)), []string{"x/y"}
	}
	h := newHarness(t, makeDeployment(10, image("v9"), deleted, paused), makeSet(1, 5))
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status")
	h.wantProgress(t, "")
	if s := h.deployment(t).Status; s.Replicas != 5 {
		t.Errorf("status is %+v", s)
	}
}

// Pins DEP-21.
func TestUnknownStrategyIsAnError(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Ramped" }), makeSet(1, 10, current))
	h.CatchUp(t)
	if err := h.Reconcile(); err == nil || err.Error() != "unexpected deployment strategy type: Ramped" {
		t.Errorf("error is %v", err)
	}
}

// Pins DEP-18 and DEP-26.
func TestPausedDeploymentScalesAndTidiesUpOnly(t *testing.T) {
	h := newHarness(t, makeDeployment(20, image("v9"), paused, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](1) }),
		makeSet(1, 0), makeSet(2, 10, current))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "delete replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set web-2 from 10 to 20")
	h.wantProgress(t, "DeploymentPaused")
	h.reconcile(t)
	h.WantRequests(t)
}

// Pins DEP-20.
func TestScalingEventComesBeforeTheRollout(t *testing.T) {
	h := newHarness(t, makeDeployment(30, rolling("3", "2"), image("v9")),
		makeSet(1, 5, scaledFor("10", "13")), makeSet(2, 8, scaledFor("10", "13")))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "update replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set web-2 from 8 to 20",
		"Normal ScalingReplicaSet Scaled up replica set web-1 from 5 to 13")
	h.reconcile(t)
	if got := h.Requests(); !slices.ContainsFunc(got, func(r string) bool { return strings.HasPrefix(r, "create replicasets ") }) {
		t.Errorf("requests are %q: the rollout should go on", got)
	}
}

// Pins DEP-55.
func TestStaleAnnotationDoesNotBlockTheRollout(t *testing.T) {
	h := newHarness(t, makeDeployment(10, image("v2")), makeSet(1, 10, scaledFor("9", "12")))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "update deployments/status")
	h.WantEvents(t)
	h.reconcile(t)
	if got := h.Requests(); !slices.ContainsFunc(got, func(r string) bool { return strings.HasPrefix(r, "create replicasets ") }) {
		t.Errorf("requests are %q: the rollout should go on", got)
	}
}

// Pins DEP-61.
func TestConflictIsNoFailure(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 10, current))
	h.CatchUp(t)
	moved := h.deployment(t).DeepCopy()
	if _, err := h.Fake.AppsV1().Deployments(namespace).UpdateStatus(h.Context(), moved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want a requeue for a conflict", err)
	}
}

// Pins DEP-12.
func TestGoneDeploymentIsForgotten(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	h.reconcile(t)
	if h.remembered() != 2 {
		t.Fatal("the writes are not remembered")
	}
	if err := h.Fake.AppsV1().Deployments(namespace).Delete(h.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.c.owners.Deleted(makeDeployment(10))
	h.reconcile(t)
	h.WantRequests(t)
	if len(h.c.owners.HandOver()) != 0 {
		t.Error("the writes are still remembered")
	}
}

// Pins DEP-23e.
func TestWhatIsTakenFromTheReplicaSetIsWritten(t *testing.T) {
	h := newHarness(t, makeDeployment(10, counts(10, 10, 10, 10), conditions(
		condition("Available", "True", reasonAvailable), condition("Progressing", "True", reasonComplete),
	), func(d *appsv1.Deployment) { d.Status.TerminatingReplicas = new(int32) }), makeSet(1, 10, current, noted(revisionAnnotation, "3")))
	boom := errors.New("boom")
	allow := h.Refuse("update deployments/status", boom)
	h.CatchUp(t)
	if err := h.Reconcile(); !errors.Is(err, boom) {
		t.Errorf("error is %v", err)
	}
	h.WantRequests(t, "update deployments/status")
	allow()
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status")
	if d := h.deployment(t); d.Annotations[revisionAnnotation] != "3" || d.Generation != 1 {
		t.Errorf("generation %d, annotations %v", d.Generation, d.Annotations)
	}
	h.reconcile(t)
	h.WantRequests(t)
}

// Pins DEP-8.
func TestTheOnlyRequests(t *testing.T) {
	orphan := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
	stray := func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"app": "other"} }
	noHistory := func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    []string
	}{
		"claims": {[]runtime.Object{makeDeployment(10), makeSet(1, 10, current, orphan), makeSet(2, 0, stray)},
			[]string{"get deployments", "patch replicasets", "update deployments/status"}},
		"rolls": {[]runtime.Object{makeDeployment(10, image("v2")), makeSet(1, 10, current)},
			[]string{"create replicasets", "update deployments/status", "update replicasets"}},
		"recreates": {[]runtime.Object{makeDeployment(10, image("v2"), recreating), makeSet(1, 10, current)},
			[]string{"create replicasets", "list pods", "list replicasets", "update deployments/status", "update replicasets"}},
		"scales": {[]runtime.Object{makeDeployment(20), makeSet(1, 10, current)},
			[]string{"update deployments/status", "update replicasets"}},
		"tidies up": {[]runtime.Object{makeDeployment(10, image("v2"), noHistory), makeSet(1, 0), makeSet(2, 10, current)},
			[]string{"delete replicasets", "update deployments/status"}},
		"rolls back": {[]runtime.Object{makeDeployment(10, image("v2"), annotated(appsv1.DeprecatedRollbackTo, "1")), makeSet(1, 0), makeSet(2, 10, current)},
			[]string{"update deployments", "update deployments/status", "update replicasets"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, tc.objects...)
			sent := map[string]bool{}
			for range 4 {
				h.reconcile(t)
				for _, request := range h.Requests() {
					what, _, _ := strings.Cut(request, " web")
					sent[what] = true
				}
				for _, rs := range controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace) {
					h.changed(t, rs.Name, func(rs *appsv1.ReplicaSet) { observed(sizeOf(rs), sizeOf(rs), sizeOf(rs))(rs) })
				}
			}
			if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, tc.want) {
				t.Errorf("requests are %q, want %q", got, tc.want)
			}
		})
	}
}
