package job

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
// count: pods that fail immediately should not be replaced immediately. A pod whose node has a
// clock that is ahead finishes now.
func (r backoffRecord) after(succeeded, failed []*corev1.Pod, now time.Time) backoffRecord {
	if len(succeeded) == 0 && len(failed) == 0 {
		return r
	}
	var success time.Time
	for _, pod := range succeeded {
		if at := earlier(finishTime(pod), now); at.After(success) {
			success = at
		}
	}
	if len(succeeded) > 0 {
		r = backoffRecord{}
	}
	for _, pod := range failed {
		at := earlier(finishTime(pod), now)
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

// lastBackoff returns the backoff record of a Job. A failure in the future is one of this moment, and remains so:
// otherwise, after the clock was set back, no pod would be replaced until it had caught up.
func (c *jobController) lastBackoff(job types.NamespacedName, uid types.UID, now time.Time) backoffRecord {
	r, ok := c.memory.backoffs.get(job, uid)
	if ok && r.last.After(now) {
		r.last = now
		c.memory.backoffs.set(job, uid, r)
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
	return max(0, delay-max(0, now.Sub(last)))
}

// sightings are when pods were first seen that finish in the future, because the clock of their
// node is ahead. Using that finish time would delay their replacement by the skew of the clock.
type sightings map[types.UID]time.Time

// next returns the sightings of pods, which may be new.
func (s sightings) next(failed map[int]*corev1.Pod, now time.Time) sightings {
	next := sightings{}
	for _, pod := range failed {
		if seen, ok := s[pod.UID]; ok {
			next[pod.UID] = seen
		} else if finishTime(pod).After(now) {
			next[pod.UID] = now
		}
	}
	return next
}

// finish returns when a pod finished, at the latest when it was seen.
func (s sightings) finish(pod *corev1.Pod) time.Time {
	if seen, ok := s[pod.UID]; ok {
		return earlier(finishTime(pod), seen)
	}
	return finishTime(pod)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// updateSightings updates the sightings of the pods that are to be replaced in a Job with a limit per index.
func (c *jobController) updateSightings(r *reconciliation) {
	known, remembered := c.memory.sightings.get(r.key, r.job.UID)
	r.sightings = known.next(r.indexed.retained, r.now)
	switch {
	case len(r.sightings) > 0:
		c.memory.sightings.set(r.key, r.job.UID, r.sightings)
	case remembered:
		c.memory.sightings.drop(r.key, r.job.UID)
	}
}
