package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/workloads"
)

// The reasons of the condition Suspended. Those of the events differ, the messages do not.
const (
	reasonSuspended  = "JobSuspended"
	reasonResumed    = "JobResumed"
	messageSuspended = "Job suspended"
	messageResumed   = "Job resumed"
)

func newCondition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) *batchv1.JobCondition {
	return &batchv1.JobCondition{
		Type:               kind,
		Status:             status,
		LastProbeTime:      metav1.NewTime(now),
		LastTransitionTime: metav1.NewTime(now),
		Reason:             reason,
		Message:            message,
	}
}

// trueCondition returns the condition of a type if it is true, or nil.
func trueCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func hasConditionType(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind })
}

// isFinished reports whether a Job is complete or has failed, which is final.
func isFinished(job *batchv1.Job) bool {
	return workloads.FinishOf(job) != nil
}

// ensureCondition sets a condition and reports whether that changed anything. A missing
// condition is not added with the status False.
func ensureCondition(job *batchv1.Job, want *batchv1.JobCondition) bool {
	conditions := job.Status.Conditions
	at := slices.IndexFunc(conditions, func(c batchv1.JobCondition) bool { return c.Type == want.Type })
	switch {
	case at < 0 && want.Status == corev1.ConditionFalse:
		return false
	case at < 0:
		job.Status.Conditions = append(conditions, *want)
		return true
	}
	if is := &conditions[at]; is.Status == want.Status && is.Reason == want.Reason && is.Message == want.Message {
		return false
	}
	conditions[at] = *want
	return true
}
