package ttlafterfinished

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"kcmd.dev/pkg/controllers/kit/workloads"
)

// isCandidate reports whether a Job is to be deleted, now or later.
func isCandidate(job *batchv1.Job) bool {
	return job.DeletionTimestamp == nil && job.Spec.TTLSecondsAfterFinished != nil && workloads.FinishOf(job) != nil
}

func ttlOf(job *batchv1.Job) time.Duration {
	return time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second
}

// expiryOf returns when a candidate expires.
func expiryOf(job *batchv1.Job) (time.Time, error) {
	finish := workloads.FinishOf(job)
	if finish.LastTransitionTime.IsZero() {
		return time.Time{}, fmt.Errorf("unable to find the time when the Job %s/%s finished", job.Namespace, job.Name)
	}
	return finish.LastTransitionTime.Add(ttlOf(job)), nil
}
