package deployment

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// urgency says whether a state of a Deployment is to be stored, and how soon.
type urgency int

const (
	// unchanged has nothing to store.
	unchanged urgency = iota
	// gradual changes are numbers on their way; several may be stored as one.
	gradual
	// urgent changes are what users, tests and other controllers wait for.
	urgent
)

// urgencyOf compares what is stored of the status and annotations with what should be.
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
		isSettled(d):
		return urgent
	}
	return gradual
}

// verdict is what a condition says, apart from when.
type verdict struct{ status, reason, message string }

func verdicts(conditions []appsv1.DeploymentCondition) map[appsv1.DeploymentConditionType]verdict {
	said := make(map[appsv1.DeploymentConditionType]verdict, len(conditions))
	for _, c := range conditions {
		said[c.Type] = verdict{string(c.Status), c.Reason, c.Message}
	}
	return said
}

// isSettled reports that every number is where it is supposed to end.
func isSettled(d *appsv1.Deployment) bool {
	return isComplete(d, &d.Status) && d.Status.ReadyReplicas == replicasOf(d) && d.Status.UnavailableReplicas == 0
}
