package deployment

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// observedStatus sums up the statuses of the ReplicaSets. Conditions other than Available and
// the collision count are kept. Without terminating, the number of terminating pods is not
// reported.
func observedStatus(d *appsv1.Deployment, sets replicaSets, terminating bool, now time.Time) appsv1.DeploymentStatus {
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation,
		CollisionCount:     d.Status.CollisionCount,
		Conditions:         slices.Clone(d.Status.Conditions),
	}
	all := sets.all()
	for _, rs := range all {
		status.Replicas += rs.Status.Replicas
		status.ReadyReplicas += rs.Status.ReadyReplicas
		status.AvailableReplicas += rs.Status.AvailableReplicas
	}
	if sets.current != nil {
		status.UpdatedReplicas = sets.current.Status.Replicas
	}
	if terminating {
		status.TerminatingReplicas = terminatingReplicas(all)
	}
	status.UnavailableReplicas = clampInt32(total(all) - int64(status.AvailableReplicas))
	status.Conditions = withCondition(status.Conditions, availability(d, status.AvailableReplicas, now))
	return status
}

// terminatingReplicas is nil if a ReplicaSet was observed by a controller that does not count
// terminating pods. One that was not observed yet has none.
func terminatingReplicas(sets []*appsv1.ReplicaSet) *int32 {
	var sum int32
	for _, rs := range sets {
		switch {
		case rs.Status.TerminatingReplicas != nil:
			sum += *rs.Status.TerminatingReplicas
		case rs.Status.ObservedGeneration > 0:
			return nil
		}
	}
	return ptr.To(sum)
}

// isComplete reports whether a status shows all desired pods updated and available, and no
// others.
func isComplete(d *appsv1.Deployment, status *appsv1.DeploymentStatus) bool {
	want := replicasOf(d)
	return status.UpdatedReplicas == want && status.Replicas == want && status.AvailableReplicas == want &&
		status.ObservedGeneration >= d.Generation
}
