package deployment

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// Pins DEP-14.
func TestOrphansAreAdoptedAfterALiveLook(t *testing.T) {
	orphan := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
	stranger := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "other" }
	h := newHarness(t, makeDeployment(10), makeSet(1, 10, current, orphan), makeSet(2, 0, stranger), makeSet(3, 0, orphan, func(rs *appsv1.ReplicaSet) { rs.Labels = nil }))
	h.reconcile(t)
	h.WantRequests(t, "get deployments", "patch replicasets", "update deployments/status")
	if !metav1.IsControlledBy(h.set(t, "web-1"), h.deployment(t)) {
		t.Error("the orphan was not adopted")
	}
}

// Pins DEP-54.
func TestAnAdoptedSetIsScaledWithoutAConflict(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 3, current, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }))
	h.Fake.PrependReactor("patch", "replicasets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		adopted := makeSet(1, 3, current, version(h.NextVersion()))
		return true, adopted, h.Fake.Tracker().Update(action.GetResource(), adopted.DeepCopy(), namespace)
	})
	h.reconcile(t)
	h.WantRequests(t, "get deployments", "patch replicasets", "update replicasets", "update deployments/status")
}

// Pins DEP-14.
func TestFailedAdoptionStopsTheReconcile(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 3, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }))
	h.Refuse("patch replicasets", errors.New("boom"))
	h.CatchUp(t)
	if err := h.Reconcile(); err == nil {
		t.Error("the failure is lost")
	}
	h.WantRequests(t, "get deployments", "patch replicasets")
}
