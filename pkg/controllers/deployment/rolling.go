package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
)

// rollForward is the size that a rolling update gives the new ReplicaSet next.
func rollForward(d *appsv1.Deployment, sets replicaSets) resize {
	if sizeOf(sets.current) > replicasOf(d) {
		return resize{rs: sets.current, size: replicasOf(d)}
	}
	return resize{rs: sets.current, size: grownSize(d, sets)}
}

// rollOff says how far a rolling update can shrink the old ReplicaSets, oldest first,
// without going below the pods that must be available. Pods that are unavailable anyway
// go first, as long as those missing from the new ReplicaSet are not counted on.
func rollOff(d *appsv1.Deployment, sets replicaSets) []resize {
	withPods := active(sets.old)
	pending := int64(sizeOf(sets.current)) - int64(sets.current.Status.AvailableReplicas)
	budget := total(sets.all()) - int64(minAvailable(d)) - pending
	if len(withPods) == 0 || budget <= 0 {
		return nil
	}
	spare := staying(withPods) + int64(sets.current.Status.AvailableReplicas) - int64(minAvailable(d))
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

// unavailablePods is how many unavailable pods each ReplicaSet can lose within a budget.
// It is false if a ReplicaSet reports more available pods than it should have: it is
// being scaled down, and nothing behind it is touched until that has been observed.
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

// staying is the number of available pods that ReplicaSets have and are to keep. Those
// above the size of a ReplicaSet are on their way out.
func staying(sets []*appsv1.ReplicaSet) int64 {
	var sum int64
	for _, rs := range sets {
		sum += int64(min(rs.Status.AvailableReplicas, sizeOf(rs)))
	}
	return sum
}
