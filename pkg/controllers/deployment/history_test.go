package deployment

import (
	"math"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
