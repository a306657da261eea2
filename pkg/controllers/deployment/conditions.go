package deployment

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the condition Progressing.
const (
	reasonFound       = "FoundNewReplicaSet"
	reasonCreated     = "NewReplicaSetCreated"
	reasonCreateError = "ReplicaSetCreateError"
	reasonUpdated     = "ReplicaSetUpdated"
	reasonComplete    = "NewReplicaSetAvailable"
	reasonTimedOut    = "ProgressDeadlineExceeded"
	reasonPaused      = "DeploymentPaused"
	reasonResumed     = "DeploymentResumed"
)

// Reasons of the condition Available.
const (
	reasonAvailable   = "MinimumReplicasAvailable"
	reasonUnavailable = "MinimumReplicasUnavailable"
)

func newCondition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{
		Type:               kind,
		Status:             status,
		LastUpdateTime:     metav1.NewTime(now),
		LastTransitionTime: metav1.NewTime(now),
		Reason:             reason,
		Message:            message,
	}
}

func progressing(status corev1.ConditionStatus, reason, message string, now time.Time) appsv1.DeploymentCondition {
	return newCondition(appsv1.DeploymentProgressing, status, reason, message, now)
}

func foundCondition(rs *appsv1.ReplicaSet, now time.Time) appsv1.DeploymentCondition {
	return progressing(corev1.ConditionTrue, reasonFound, fmt.Sprintf("Found new replica set %q", rs.Name), now)
}

func createdCondition(rs *appsv1.ReplicaSet, now time.Time) appsv1.DeploymentCondition {
	return progressing(corev1.ConditionTrue, reasonCreated, fmt.Sprintf("Created new replica set %q", rs.Name), now)
}

// availability returns the condition Available for a number of available pods.
func availability(d *appsv1.Deployment, available int32, now time.Time) appsv1.DeploymentCondition {
	if available >= minAvailable(d) {
		return newCondition(appsv1.DeploymentAvailable, corev1.ConditionTrue, reasonAvailable,
			"Deployment has minimum availability.", now)
	}
	return newCondition(appsv1.DeploymentAvailable, corev1.ConditionFalse, reasonUnavailable,
		"Deployment does not have minimum availability.", now)
}

// replicaFailure returns the condition ReplicaFailure of the first ReplicaSet that has one, the
// new one before the old.
func replicaFailure(sets replicaSets) (appsv1.DeploymentCondition, bool) {
	candidates := sets.old
	if sets.current != nil {
		candidates = append([]*appsv1.ReplicaSet{sets.current}, sets.old...)
	}
	for _, rs := range candidates {
		for _, c := range rs.Status.Conditions {
			if c.Type != appsv1.ReplicaSetReplicaFailure {
				continue
			}
			return appsv1.DeploymentCondition{
				Type:               appsv1.DeploymentReplicaFailure,
				Status:             c.Status,
				LastUpdateTime:     c.LastTransitionTime,
				LastTransitionTime: c.LastTransitionTime,
				Reason:             c.Reason,
				Message:            c.Message,
			}, true
		}
	}
	return appsv1.DeploymentCondition{}, false
}

func findCondition(conditions []appsv1.DeploymentCondition, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// withCondition returns the conditions with one set. A condition of the same status and reason
// is not changed. Otherwise the new one is appended, with the transition time of the one it
// replaces if the status is the same.
func withCondition(conditions []appsv1.DeploymentCondition, c appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
	was := findCondition(conditions, c.Type)
	if was != nil && was.Status == c.Status && was.Reason == c.Reason {
		return conditions
	}
	return replaceCondition(conditions, c)
}

// replaceCondition is like withCondition, but replaces a condition even if status and reason
// are the same.
func replaceCondition(conditions []appsv1.DeploymentCondition, c appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
	if was := findCondition(conditions, c.Type); was != nil && was.Status == c.Status {
		c.LastTransitionTime = was.LastTransitionTime
	}
	return append(withoutCondition(conditions, c.Type), c)
}

// withoutCondition returns a copy of the conditions without one.
func withoutCondition(conditions []appsv1.DeploymentCondition, kind appsv1.DeploymentConditionType) []appsv1.DeploymentCondition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}
