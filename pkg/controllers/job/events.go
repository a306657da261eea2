package job

// Reasons of events of Jobs. Those of a failure are the reasons of its condition, and
// those for pods are in package pods.
const (
	reasonCompleted        = "Completed"
	reasonTooManySucceeded = "TooManySucceededPods"
	reasonUnknownMode      = "UnknownCompletionMode"
	reasonWorkloadCreated  = "WorkloadCreated"
)

// The events of a suspension have the reason of its event here, while its condition has
// another.
const (
	reasonSuspended          = "Suspended"
	reasonResumed            = "Resumed"
	conditionReasonSuspended = "JobSuspended"
	conditionReasonResumed   = "JobResumed"
	messageSuspended         = "Job suspended"
	messageResumed           = "Job resumed"
)
