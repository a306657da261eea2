package job

import (
	batchv1 "k8s.io/api/batch/v1"

	"kcmd.dev/pkg/controller"
)

// The events for pods are in package pods.

func suspendedJob(job *batchv1.Job) controller.Event {
	return controller.Normal(job, "Suspended", messageSuspended)
}

func resumedJob(job *batchv1.Job) controller.Event {
	return controller.Normal(job, "Resumed", messageResumed)
}

func completedJob(job *batchv1.Job) controller.Event {
	return controller.Normal(job, "Completed", "Job completed")
}

func tooManySucceeded(job *batchv1.Job) controller.Event {
	return controller.Warning(job, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
}

// failedJob has the reason and the message of the condition.
func failedJob(job *batchv1.Job, condition *batchv1.JobCondition) controller.Event {
	return controller.Warning(job, condition.Reason, "%s", condition.Message)
}

func unknownMode(job *batchv1.Job) controller.Event {
	return controller.Warning(job, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
}

func createdWorkload(job *batchv1.Job, name string) controller.Event {
	return controller.Normal(job, "WorkloadCreated", "Created Workload %s for Job %s", name, job.Name)
}
