package deployment

import (
	"maps"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// resize is a decision to scale a ReplicaSet.
type resize struct {
	rs   *appsv1.ReplicaSet
	size int32
	// refresh writes the annotations about replicas even if the size is already right.
	refresh bool
}

// apply returns the ReplicaSet with the decision applied, nil if nothing changes.
func (r resize) apply(d *appsv1.Deployment) *appsv1.ReplicaSet {
	fits := sizeOf(r.rs) == r.size
	if fits && !r.refresh {
		return nil
	}
	annotations := maps.Clone(r.rs.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, replicasAnnotations(d))
	if fits && maps.Equal(annotations, r.rs.Annotations) {
		return nil
	}
	sized := r.rs.DeepCopy()
	sized.Spec.Replicas = ptr.To(r.size)
	sized.Annotations = annotations
	return sized
}

// isScalingEvent reports whether the number of replicas of a Deployment changed since its
// active ReplicaSets were scaled.
func isScalingEvent(d *appsv1.Deployment, sets replicaSets) bool {
	return slices.ContainsFunc(active(sets.all()), func(rs *appsv1.ReplicaSet) bool { return sizedForOther(d, rs) })
}

// scaling decides how to scale each ReplicaSet after a change of the number of replicas. It
// does not continue a rollout.
func scaling(d *appsv1.Deployment, sets replicaSets) []resize {
	withPods := active(sets.all())
	switch {
	case len(withPods) <= 1:
		return scaleOnly(d, onlyOrLatest(withPods, sets))
	case isSaturated(d, sets.current):
		return scaleToZero(sets.old)
	case isRollingUpdate(d):
		return scaleInProportion(d, withPods)
	case !d.Spec.Paused:
		// Their annotations are stale, which would remain a scaling event forever and block the
		// rollout that removes the old ReplicaSets.
		return refreshed(withPods)
	}
	return nil
}

// onlyOrLatest returns the only active ReplicaSet, else the new one, else the newest.
func onlyOrLatest(withPods []*appsv1.ReplicaSet, sets replicaSets) *appsv1.ReplicaSet {
	switch {
	case len(withPods) == 1:
		return withPods[0]
	case sets.current != nil:
		return sets.current
	case len(sets.old) > 0:
		return sets.old[len(sets.old)-1]
	}
	return nil
}

// scaleOnly scales one ReplicaSet to all replicas. If it has that size but was scaled for
// another number, the annotation is corrected: otherwise it would remain a scaling event, and
// no rollout would ever happen (kubernetes/kubernetes#138036).
func scaleOnly(d *appsv1.Deployment, rs *appsv1.ReplicaSet) []resize {
	if rs == nil {
		return nil
	}
	stale := sizeOf(rs) > 0 && sizedForOther(d, rs)
	return []resize{{rs: rs, size: replicasOf(d), refresh: stale}}
}

func scaleToZero(sets []*appsv1.ReplicaSet) []resize {
	var plan []resize
	for _, rs := range active(sets) {
		plan = append(plan, resize{rs: rs, size: 0})
	}
	return plan
}

func refreshed(sets []*appsv1.ReplicaSet) []resize {
	var plan []resize
	for _, rs := range sets {
		plan = append(plan, resize{rs: rs, size: sizeOf(rs), refresh: true})
	}
	return plan
}

// isSaturated reports whether the new ReplicaSet has, for this number of replicas, every
// pod that the Deployment wants.
func isSaturated(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	if rs == nil {
		return false
	}
	desired, ok := annotatedReplicas(rs, desiredReplicasAnnotation)
	want := replicasOf(d)
	return ok && desired == want && sizeOf(rs) == want && rs.Status.AvailableReplicas == want
}

// scaleInProportion spreads the replicas to add or remove over the active ReplicaSets by their
// size, so that a rollout in progress keeps its risk. The rounding remainder goes to the first.
func scaleInProportion(d *appsv1.Deployment, withPods []*appsv1.ReplicaSet) []resize {
	var allowed int64
	if replicasOf(d) > 0 {
		allowed = maxReplicas(d)
	}
	delta := allowed - total(withPods)
	sorted := slices.Clone(withPods)
	switch {
	case delta > 0:
		slices.SortStableFunc(sorted, bySizeNewer)
	case delta < 0:
		slices.SortStableFunc(sorted, bySizeOlder)
	}
	plan := make([]resize, 0, len(sorted))
	left := delta
	for _, rs := range sorted {
		share := shareOf(d, rs, left)
		left -= share
		plan = append(plan, resize{rs: rs, size: clampInt32(int64(sizeOf(rs)) + share), refresh: true})
	}
	plan[0].size = clampInt32(int64(plan[0].size) + left)
	return plan
}

// shareOf returns the share of a ReplicaSet in the replicas left to add, or to remove if
// negative. Its new size is its present size times the ratio of the maximum now to the maximum
// when it was scaled.
func shareOf(d *appsv1.Deployment, rs *appsv1.ReplicaSet, left int64) int64 {
	size := int64(sizeOf(rs))
	if left == 0 || size == 0 {
		return 0
	}
	share := -size
	if replicasOf(d) > 0 {
		before, ok := annotatedReplicas(rs, maxReplicasAnnotation)
		if !ok || before == 0 {
			before = d.Status.Replicas
		}
		if before == 0 {
			return 0
		}
		// The product of two int32 may overflow an int32.
		share = int64(math.Round(float64(size)*float64(maxReplicas(d))/float64(before))) - size
	}
	if left > 0 {
		return min(share, left)
	}
	return max(share, left)
}
