package job

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// podBackoff is the delay before the first failed pod is replaced. It doubles with
	// each further failure up to maxPodBackoff.
	podBackoff    = 10 * time.Second
	maxPodBackoff = 10 * time.Minute
	// minBackoffWait is the minimum backoff delay of a Job.
	minBackoffWait = time.Second
)

// backoffRecord counts the failures of a Job since its last success.
type backoffRecord struct {
	failures int
	last     time.Time
}

// after returns the record after further pods have finished. Failures that a policy ignores
// count: pods that fail immediately should not be replaced immediately.
func (r backoffRecord) after(succeeded, failed []*corev1.Pod) backoffRecord {
	if len(succeeded) == 0 && len(failed) == 0 {
		return r
	}
	var success time.Time
	for _, pod := range succeeded {
		if at := finishTime(pod); at.After(success) {
			success = at
		}
	}
	if len(succeeded) > 0 {
		r = backoffRecord{}
	}
	for _, pod := range failed {
		at := finishTime(pod)
		if len(succeeded) > 0 && !at.After(success) {
			continue
		}
		r.failures++
		if at.After(r.last) {
			r.last = at
		}
	}
	return r
}

// wait returns the delay until the next pod may be created.
func (r backoffRecord) wait(now time.Time) time.Duration { return backoffWait(r.failures, r.last, now) }

func backoffWait(failures int, last, now time.Time) time.Duration {
	if failures == 0 {
		return 0
	}
	delay := maxPodBackoff
	// 10 s doubled six times is more than the maximum.
	if failures <= 6 {
		delay = min(delay, podBackoff<<(failures-1))
	}
	return max(0, delay-now.Sub(last))
}
