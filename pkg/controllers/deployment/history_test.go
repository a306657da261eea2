package deployment

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// Pins DEP-31.
func TestOutdated(t *testing.T) {
	deleted := func(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
	limit := func(n *int32) *appsv1.Deployment {
		return makeDeployment(1, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = n })
	}
	sets := func(changes ...setChange) []*appsv1.ReplicaSet {
		return []*appsv1.ReplicaSet{makeSet(3, 0), makeSet(1, 0, changes...), makeSet(2, 0)}
	}
	for _, tc := range []struct {
		name string
		d    *appsv1.Deployment
		old  []*appsv1.ReplicaSet
		want []string
	}{
		{"no limit", limit(nil), sets(), nil},
		{"DEP-11: the largest limit is none", limit(ptr.To[int32](math.MaxInt32)), sets(), nil},
		{"within the limit", limit(ptr.To[int32](3)), sets(), nil},
		{"the lowest revisions go", limit(ptr.To[int32](1)), sets(), []string{"web-1", "web-2"}},
		{"all go", limit(ptr.To[int32](0)), sets(), []string{"web-1", "web-2", "web-3"}},
		{"one with pods stays, and none goes instead", limit(ptr.To[int32](2)), sets(observed(1, 0, 0)), nil},
		{"one that should have pods stays", limit(ptr.To[int32](2)), sets(func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = ptr.To[int32](1) }), nil},
		{"one that was not observed stays", limit(ptr.To[int32](2)), sets(func(rs *appsv1.ReplicaSet) { rs.Generation = 2 }), nil},
		{"one being deleted does not count", limit(ptr.To[int32](2)), sets(deleted), nil},
		{"one being deleted is not deleted again", limit(ptr.To[int32](1)), sets(deleted), []string{"web-2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := slices.Clone(tc.old)
			if got := names(outdated(tc.d, tc.old)); !slices.Equal(got, tc.want) {
				t.Errorf("outdated() = %v, want %v", got, tc.want)
			}
			if !slices.Equal(before, tc.old) {
				t.Error("the slice of the caller was changed")
			}
		})
	}
}

// Pins DEP-28f.
func TestHistoryStaysWhileTheRolloutRuns(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }, counts(10, 10, 9, 9)),
		makeSet(1, 10, current, noted(revisionAnnotation, "3"), observed(10, 9, 9)), makeSet(2, 0))
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status")
}

// Pins DEP-19 and DEP-26.
func TestARequestToRollBackKeepsTheHistoryOfAPausedDeployment(t *testing.T) {
	for target, want := range map[string][]string{
		"1":        {"update deployments/status"},
		"the last": {"delete replicasets", "update deployments/status"}, // ignored
	} {
		t.Run(target, func(t *testing.T) {
			h := newHarness(t, makeDeployment(10, image("v9"), paused, annotated(appsv1.DeprecatedRollbackTo, target),
				func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](1) }), makeSet(1, 0), makeSet(2, 10, current))
			h.reconcile(t)
			h.WantRequests(t, want...)
		})
	}
}

// Pins DEP-60.
func TestDeleteOfHistoryNamesTheUID(t *testing.T) {
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }, counts(10, 10, 10, 10)),
		makeSet(1, 10, current, noted(revisionAnnotation, "3")), makeSet(2, 0))
	h.reconcile(t)
	deletion := h.Fake.Actions()[0].(clienttesting.DeleteAction).GetDeleteOptions()
	h.WantRequests(t, "delete replicasets", "update deployments/status")
	if deletion.Preconditions == nil || ptr.Deref(deletion.Preconditions.UID, "") != "web-2" || deletion.PropagationPolicy != nil {
		t.Errorf("options are %+v", deletion)
	}
}

// Pins DEP-60.
func TestHistoryThatIsGoneAlreadyIsNoFailure(t *testing.T) {
	for name, err := range map[string]error{
		"gone":      apierrors.NewNotFound(replicaSetResource, "web-2"),
		"recreated": apierrors.NewConflict(replicaSetResource, "web-2", errors.New("precondition failed: UID")),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }, counts(10, 10, 10, 10)),
				makeSet(1, 10, current, noted(revisionAnnotation, "3")), makeSet(2, 0))
			h.Refuse("delete replicasets", err)
			h.reconcile(t)
			h.WantRequests(t, "delete replicasets", "update deployments/status")
		})
	}
}

// Pins WL-117.
func TestTheAnswerOfAProxyIsNoDeletion(t *testing.T) {
	ofAProxy := apierrors.NewGenericServerResponse(
		http.StatusNotFound, "delete", replicaSetResource, "web-2", "404 page not found", 0, true)
	h := newHarness(t, makeDeployment(10, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](0) }, counts(10, 10, 10, 10)),
		makeSet(1, 10, current, noted(revisionAnnotation, "3")), makeSet(2, 0))
	h.Refuse("delete replicasets", ofAProxy)
	h.CatchUp(t)
	if err := h.Reconcile(); !errors.Is(err, ofAProxy) {
		t.Errorf("got %v", err)
	}
}

// Otherwise the history would grow without a limit. Pins DEP-76.
func TestADeletionThatFailsKeepsNoOtherFromBeingSent(t *testing.T) {
	limit := func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](1) }
	h := newHarness(t, makeDeployment(10, image("v4"), limit, counts(10, 10, 10, 10)),
		makeSet(1, 0), makeSet(2, 0), makeSet(3, 0), makeSet(4, 10, current))
	no := errors.New("no")
	h.Refuse("delete replicasets web-1", no)
	h.CatchUp(t)
	if err := h.Reconcile(); !errors.Is(err, no) {
		t.Errorf("the error is %v", err)
	}
	h.WantRequests(t, "delete replicasets web-1", "delete replicasets web-2", "update deployments/status")
}
