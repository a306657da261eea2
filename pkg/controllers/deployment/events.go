package deployment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	appsv1 "k8s.io/api/apps/v1"
)

// event is an event of a Deployment. It is recorded on the Deployment as the last write
// returned it.
type event struct{ kind, reason, message string }

func selectingAllEvent() event {
	return event{corev1.EventTypeWarning, "SelectingAll",
		"This deployment is selecting all pods. A non-empty selector is required."}
}

func scaledEvent(rs *appsv1.ReplicaSet, from, to int32) event {
	direction := "down"
	if to > from {
		direction = "up"
	}
	return event{corev1.EventTypeNormal, "ScalingReplicaSet",
		fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, rs.Name, from, to)}
}

func createFailedEvent(message string) event {
	return event{corev1.EventTypeWarning, reasonCreateError, message}
}

func rolledBackEvent(d *appsv1.Deployment, revision int64) event {
	return event{corev1.EventTypeNormal, "DeploymentRollback",
		fmt.Sprintf("Rolled back deployment %q to revision %d", d.Name, revision)}
}

func sameTemplateEvent(d *appsv1.Deployment) event {
	return event{corev1.EventTypeWarning, "DeploymentRollbackTemplateUnchanged",
		fmt.Sprintf("The rollback revision contains the same template as current deployment %q", d.Name)}
}

func noLastRevisionEvent() event {
	return event{corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find last revision."}
}

func revisionNotFoundEvent() event {
	return event{corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound",
		"Unable to find the revision to rollback to."}
}
