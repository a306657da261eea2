// Package workloads holds functions that several workload controllers use. Its subpackages hold
// what a family of them shares.
package workloads

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// FinishOf returns the first condition Complete or Failed that is True, nil if the Job has not
// finished. It points into the Job.
func FinishOf(job *batchv1.Job) *batchv1.JobCondition {
	for n := range job.Status.Conditions {
		c := &job.Status.Conditions[n]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
