package pods

// Reasons of the events that owners get, and of their ReplicaFailure condition.
const (
	// ReasonFailedCreate is the reason of the event, and of the condition, when a pod
	// could not be created.
	ReasonFailedCreate = "FailedCreate"
	// ReasonSuccessfulCreate is the reason of the event for a created pod.
	ReasonSuccessfulCreate = "SuccessfulCreate"
	// ReasonFailedDelete is the reason of the event, and of the condition, when a pod
	// could not be deleted.
	ReasonFailedDelete = "FailedDelete"
	// ReasonSuccessfulDelete is the reason of the event for a deleted pod.
	ReasonSuccessfulDelete = "SuccessfulDelete"
)
