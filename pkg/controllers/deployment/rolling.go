package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
)

// scaleUpNew returns the next size of the new ReplicaSet in a rolling update. It is smaller only if the ReplicaSet is
// larger than the Deployment.
func scaleUpNew(d *appsv1.Deployment, sets replicaSets) resize {
	if sizeOf(sets.current) > replicasOf(d) {
		return resize{rs: sets.current, size: replicasOf(d)}
	}
	return resize{rs: sets.current, size: grownSize(d, sets)}
}

// scaleDownOld returns how far a rolling update can scale down the old ReplicaSets, oldest first,
// without going below the minimum of available pods. Unavailable pods are removed first; the
// pods that the new ReplicaSet still lacks count as unavailable.
func scaleDownOld(d *appsv1.Deployment, sets replicaSets) []resize {
	withPods := active(sets.old)
	updated := staying([]*appsv1.ReplicaSet{sets.current})
	pending := int64(sizeOf(sets.current)) - updated
	budget := total(sets.all()) - int64(minAvailable(d)) - pending
	if len(withPods) == 0 || budget <= 0 {
		return nil
	}
	spare := staying(withPods) + updated - int64(minAvailable(d))
	unavailable, ok := unavailablePods(withPods, budget)
	if !ok {
		spare = 0
	}
	var plan []resize
	for i, rs := range withPods {
		size := int64(sizeOf(rs)) - unavailable[i]
		healthy := max(0, min(size, spare))
		spare -= healthy
		if cut := unavailable[i] + healthy; cut > 0 {
			plan = append(plan, resize{rs: rs, size: clampInt32(int64(sizeOf(rs)) - cut)})
		}
	}
	return plan
}

// unavailablePods returns how many unavailable pods each ReplicaSet can lose within a budget.
// It returns false if a ReplicaSet reports more available pods than it should have: it is being
// scaled down, and the following ones are not changed until that has been observed.
func unavailablePods(sets []*appsv1.ReplicaSet, budget int64) ([]int64, bool) {
	cuts := make([]int64, len(sets))
	for i, rs := range sets {
		if budget <= 0 {
			break
		}
		cut := min(budget, int64(sizeOf(rs))-int64(rs.Status.AvailableReplicas))
		if cut < 0 {
			return cuts, false
		}
		cuts[i] = cut
		budget -= cut
	}
	return cuts, true
}

// staying returns the number of available pods that ReplicaSets will keep. Those beyond the
// size of a ReplicaSet are being removed.
func staying(sets []*appsv1.ReplicaSet) int64 {
	var sum int64
	for _, rs := range sets {
		sum += int64(min(rs.Status.AvailableReplicas, sizeOf(rs)))
	}
	return sum
}
