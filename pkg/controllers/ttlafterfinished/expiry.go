package ttlafterfinished

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"kcmd.dev/pkg/controllers/kit/jobs"
)

// isCandidate reports whether a Job is to be deleted, now or later.
func isCandidate(job *batchv1.Job) bool {
	return job.DeletionTimestamp == nil && job.Spec.TTLSecondsAfterFinished != nil && jobs.Finish(job) != nil
}

func ttlOf(job *batchv1.Job) time.Duration {
	return time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second
}

// expiryOf is when a candidate expires.
func expiryOf(job *batchv1.Job) (time.Time, error) {
	finish := jobs.Finish(job)
	if finish.LastTransitionTime.IsZero() {
		return time.Time{}, fmt.Errorf("unable to find the time when the Job %s/%s finished", job.Namespace, job.Name)
	}
	return finish.LastTransitionTime.Add(ttlOf(job)), nil
}
