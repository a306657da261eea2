package pods

import "kcmd.dev/pkg/controller"

// Reasons that the ReplicaFailure condition of an owner shares with its events.
const (
	ReasonFailedCreate = "FailedCreate"
	ReasonFailedDelete = "FailedDelete"
)

func createdPod(owner Owner, pod string) controller.Event {
	return controller.Normal(owner, "SuccessfulCreate", "Created pod: %v", pod)
}

func failedCreate(owner Owner, err error) controller.Event {
	return controller.Warning(owner, ReasonFailedCreate, "Error creating: %v", err)
}

func deletedPod(owner Owner, pod string) controller.Event {
	return controller.Normal(owner, "SuccessfulDelete", "Deleted pod: %v", pod)
}

func failedDelete(owner Owner, err error) controller.Event {
	return controller.Warning(owner, ReasonFailedDelete, "Error deleting: %v", err)
}
