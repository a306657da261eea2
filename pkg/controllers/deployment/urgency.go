package deployment

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// statusWindow is the time between two writes of numbers that keep changing. They are sums of those of the
// ReplicaSets, from which rollouts proceed: no controller waits for them.
const statusWindow = 2 * time.Second

// urgency is whether a status of a Deployment must be written, and how soon.
type urgency int

const (
	// unchanged statuses are not written.
	unchanged urgency = iota
	// gradual changes are intermediate numbers; several may be written as one.
	gradual
	// urgent changes are what users, tests and other controllers wait for.
	urgent
)

// urgencyOf compares the stored status and annotations with the desired ones.
func urgencyOf(stored, d *appsv1.Deployment) urgency {
	if !maps.Equal(stored.Annotations, d.Annotations) {
		return urgent
	}
	was, is := &stored.Status, &d.Status
	switch {
	case equality.Semantic.DeepEqual(was, is):
		return unchanged
	case was.ObservedGeneration != is.ObservedGeneration,
		!ptr.Equal(was.CollisionCount, is.CollisionCount),
		!maps.Equal(verdicts(was.Conditions), verdicts(is.Conditions)),
		isSettled(stored) && (is.ReadyReplicas < was.ReadyReplicas || is.AvailableReplicas < was.AvailableReplicas),
		isSettled(d) && (!isSettled(stored) || ptr.Deref(is.TerminatingReplicas, 0) == 0):
		return urgent
	}
	return gradual
}

// numbersOf returns a status without its conditions, whose times change with each number.
func numbersOf(status appsv1.DeploymentStatus) appsv1.DeploymentStatus {
	status.Conditions = nil
	return status
}

// verdict is a condition without its times.
type verdict struct{ status, reason, message string }

func verdicts(conditions []appsv1.DeploymentCondition) map[appsv1.DeploymentConditionType]verdict {
	said := make(map[appsv1.DeploymentConditionType]verdict, len(conditions))
	for _, c := range conditions {
		said[c.Type] = verdict{string(c.Status), c.Reason, c.Message}
	}
	return said
}

// isSettled reports whether every number has reached its final value.
func isSettled(d *appsv1.Deployment) bool {
	return isComplete(d, &d.Status) && d.Status.ReadyReplicas == replicasOf(d) && d.Status.UnavailableReplicas == 0
}
