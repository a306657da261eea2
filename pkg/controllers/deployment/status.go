package deployment

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
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

// report computes the status of a Deployment that is not being rolled out.
func (r *reconciliation) report() {
	r.d.Status = observedStatus(r.d, r.sets, r.config.terminatingReplicas, r.Clock.Now())
	r.reported = true
}

// reportCounts computes the status after a step that failed. What may be a new generation has not been acted on.
func (r *reconciliation) reportCounts() {
	generation := r.d.Status.ObservedGeneration
	r.report()
	r.d.Status.ObservedGeneration = generation
}

// reportRollout computes the status and the progress of a rollout.
func (r *reconciliation) reportRollout() {
	r.d.Status = rolloutStatus(r.d, r.sets, r.config.terminatingReplicas, r.Clock.Now())
	r.reported, r.awaitsProgress = true, true
}

// writeStatus writes the status and the revision if they changed. Otherwise a rollout that may
// be stuck is enqueued for when its deadline has passed.
func (r *reconciliation) writeStatus(ctx context.Context) error {
	switch urgencyOf(r.stored, r.d) {
	case unchanged:
		r.checkProgressLater()
		return nil
	case gradual:
		if r.owners.PutOff(r.stored, numbersOf(r.d.Status), statusWindow) {
			return nil
		}
	}
	answer, err := r.Client.AppsV1().Deployments(r.d.Namespace).UpdateStatus(controller.OnlyMetadata(ctx), r.d, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("updating the status of Deployment %s: %w", klog.KObj(r.stored), err)
	}
	updated := *r.d
	updated.ObjectMeta = answer.ObjectMeta
	hadEffect := updated.ResourceVersion != r.stored.ResourceVersion
	r.owners.WroteStatus(r.stored, &updated)
	r.rebaseOn(&updated)
	if !hadEffect {
		r.checkProgressLater() // no event follows
	}
	return nil
}

func (r *reconciliation) checkProgressLater() {
	if !r.awaitsProgress {
		return
	}
	if delay, ok := progressCheck(r.d, r.Clock.Now()); ok {
		r.owners.EnqueueAfter(r.stored, delay)
	}
}

// rebaseOn bases the rest of the reconcile on the object that a write returned.
func (r *reconciliation) rebaseOn(updated *appsv1.Deployment) {
	r.stored, r.d = updated, updated.DeepCopy()
}

func (r *reconciliation) setCondition(c appsv1.DeploymentCondition) {
	r.d.Status.Conditions = withCondition(r.d.Status.Conditions, c)
}
