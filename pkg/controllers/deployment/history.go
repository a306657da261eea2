package deployment

import (
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// outdated returns the old ReplicaSets beyond the history limit that may be deleted. Candidates
// are those with the lowest revisions; one that is still in use is kept, and none with a higher
// revision is deleted instead.
func outdated(d *appsv1.Deployment, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	limit := ptr.Deref(d.Spec.RevisionHistoryLimit, math.MaxInt32)
	if limit == math.MaxInt32 {
		return nil
	}
	var candidates []*appsv1.ReplicaSet
	for _, rs := range old {
		if rs.DeletionTimestamp == nil {
			candidates = append(candidates, rs)
		}
	}
	excess := len(candidates) - int(limit)
	if excess <= 0 {
		return nil
	}
	slices.SortStableFunc(candidates, byRevision)
	return slices.DeleteFunc(candidates[:min(excess, len(candidates))], inUse)
}

// inUse reports whether a ReplicaSet has pods, should have pods, or has not been observed by
// its controller since it was changed.
func inUse(rs *appsv1.ReplicaSet) bool {
	return rs.Status.Replicas != 0 || sizeOf(rs) != 0 || rs.Generation > rs.Status.ObservedGeneration
}
