// Package jobs answers what several controllers ask of a Job.
package jobs

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Finish is the condition that says how a Job ended, the first of Complete and Failed that
// is True; nil if it has not ended. It points into the Job.
func Finish(job *batchv1.Job) *batchv1.JobCondition {
	for n := range job.Status.Conditions {
		c := &job.Status.Conditions[n]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
