package ttlafterfinished

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// isCandidate reports whether a Job is to be deleted, now or later.
func isCandidate(job *batchv1.Job) bool {
	return job.DeletionTimestamp == nil && job.Spec.TTLSecondsAfterFinished != nil && finishOf(job) != nil
}

// finishOf is the condition that says how a Job ended, nil if it has not.
func finishOf(job *batchv1.Job) *batchv1.JobCondition {
	for n := range job.Status.Conditions {
		c := &job.Status.Conditions[n]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func ttlOf(job *batchv1.Job) time.Duration {
	return time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second
}

// expiryOf is when a candidate expires.
func expiryOf(job *batchv1.Job) (time.Time, error) {
	finish := finishOf(job)
	if finish.LastTransitionTime.IsZero() {
		return time.Time{}, fmt.Errorf("unable to find the time when the Job %s/%s finished", job.Namespace, job.Name)
	}
	return finish.LastTransitionTime.Add(ttlOf(job)), nil
}
