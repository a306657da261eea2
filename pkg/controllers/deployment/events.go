package deployment

import (
	appsv1 "k8s.io/api/apps/v1"

	"kcmd.dev/pkg/controller"
)

func selectingAllEvent(d *appsv1.Deployment) controller.Event {
	return controller.Warning(d, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
}

func scaledEvent(d *appsv1.Deployment, rs *appsv1.ReplicaSet, from, to int32) controller.Event {
	direction := "down"
	if to > from {
		direction = "up"
	}
	return controller.Normal(d, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", direction, rs.Name, from, to)
}

func createFailedEvent(d *appsv1.Deployment, message string) controller.Event {
	return controller.Warning(d, reasonCreateError, "%s", message)
}

func rolledBackEvent(d *appsv1.Deployment, revision int64) controller.Event {
	return controller.Normal(d, "DeploymentRollback", "Rolled back deployment %q to revision %d", d.Name, revision)
}

func sameTemplateEvent(d *appsv1.Deployment) controller.Event {
	return controller.Warning(d, "DeploymentRollbackTemplateUnchanged",
		"The rollback revision contains the same template as current deployment %q", d.Name)
}

func noLastRevisionEvent(d *appsv1.Deployment) controller.Event {
	return controller.Warning(d, "DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
}

func revisionNotFoundEvent(d *appsv1.Deployment) controller.Event {
	return controller.Warning(d, "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to.")
}
