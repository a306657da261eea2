package job

import (
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/pods"
)

const (
	// failureCount and ignoredFailureCount are the annotations with the failure counts that the
	// pod of an index inherits from its predecessors.
	failureCount        = "batch.kubernetes.io/job-index-failure-count"
	ignoredFailureCount = "batch.kubernetes.io/job-index-ignored-failure-count"
)

// indexState is the state of the indexes of an Indexed Job.
type indexState struct {
	// counted are the succeeded indexes of the status, succeeded those and the ones of
	// pods that have succeeded since.
	counted, succeeded indexes
	// failed are the indexes that are not retried.
	failed indexes
	// retained holds, for each index to be retried, the failed pod from which its replacement
	// inherits the failure counts. The pod is kept until the replacement exists.
	retained map[int]*corev1.Pod
}

// observeIndexes never reports an index as both succeeded and failed, which the API server
// would reject: the result that was reported first is kept, otherwise success takes precedence.
func (r *reconciliation) observeIndexes() indexState {
	status, completions := &r.job.Status, completionsOf(r.job)
	state := indexState{counted: parseIndexes(status.CompletedIndexes, completions)}
	if hasBackoffPerIndex(r.job) && status.FailedIndexes != nil {
		state.failed = parseIndexes(*status.FailedIndexes, completions)
	}
	succeeded := map[int]bool{}
	for _, pod := range r.pods {
		if i := indexOf(pod); pod.Status.Phase == corev1.PodSucceeded && isTracked(pod) && r.validIndex(i) && !state.failed.has(i) {
			succeeded[i] = true
		}
	}
	state.succeeded = state.counted.with(succeeded)
	if hasBackoffPerIndex(r.job) {
		state.failed = state.failed.with(r.newlyFailedIndexes(state.succeeded))
		state.retained = r.retainedPods(state)
	}
	return state
}

func (r *reconciliation) newlyFailedIndexes(succeeded indexes) map[int]bool {
	failed := map[int]bool{}
	limit := *r.job.Spec.BackoffLimitPerIndex
	for _, pod := range r.pods {
		i := indexOf(pod)
		if !isTracked(pod) || !r.validIndex(i) || !r.isFailed(pod) || succeeded.has(i) {
			continue
		}
		v := r.verdict(pod)
		if v.fails() || v.counts() && annotatedCount(pod, failureCount) >= limit {
			failed[i] = true
		}
	}
	return failed
}

func (r *reconciliation) retainedPods(state indexState) map[int]*corev1.Pod {
	active := r.activeIndexes()
	retained := map[int]*corev1.Pod{}
	for _, pod := range r.pods {
		i := indexOf(pod)
		if !r.tracks(pod) || !r.validIndex(i) || !r.isFailed(pod) ||
			state.succeeded.has(i) || state.failed.has(i) || active[i] {
			continue
		}
		if was := retained[i]; was == nil || supersedes(pod, was) {
			retained[i] = pod
		}
	}
	return retained
}

// supersedes reports whether the failure counts of a failed pod are at least those of another
// one of its index.
func supersedes(pod, other *corev1.Pod) bool {
	return allFailures(pod) >= allFailures(other) && !finishTime(pod).Before(finishTime(other))
}

func (r *reconciliation) activeIndexes() map[int]bool {
	active := map[int]bool{}
	for _, pod := range r.active {
		if i := indexOf(pod); i != unknownIndex {
			active[i] = true
		}
	}
	return active
}

// pendingIndexes returns the lowest indexes, at most n, for which a pod is to be created.
func (r *reconciliation) pendingIndexes(n int) []int {
	busy := r.activeIndexes()
	if r.replacesWhenTerminated {
		for _, pod := range r.pods {
			if i := indexOf(pod); i != unknownIndex && pods.IsTerminating(pod) {
				busy[i] = true
			}
		}
	}
	done := r.indexed.succeeded.union(r.indexed.failed).with(busy)
	completions := completionsOf(r.job)
	pending := make([]int, 0, n)
	for i := 0; i < completions && len(pending) < n; {
		if len(done) > 0 && i >= done[0].first {
			i, done = done[0].last+1, done[1:]
			continue
		}
		pending = append(pending, i)
		i++
	}
	return pending
}

// readyIndexes returns those of the pending indexes that are not backing off, or how long
// to wait for the first if all are.
func (r *reconciliation) readyIndexes(pending []int) (ready []int, wait time.Duration) {
	for _, i := range pending {
		remaining := r.indexWait(i)
		if remaining <= 0 {
			ready = append(ready, i)
		} else if wait == 0 || remaining < wait {
			wait = remaining
		}
	}
	if len(ready) > 0 {
		return ready, 0
	}
	return nil, wait
}

func (r *reconciliation) indexWait(i int) time.Duration {
	pod := r.indexed.retained[i]
	if pod == nil {
		return 0
	}
	return backoffWait(allFailures(pod)+1, r.sightings.finish(pod), r.now)
}

// nextCounts returns the failure counts of the pod that replaces another, nil if there
// is none to replace.
func (r *reconciliation) nextCounts(replaced *corev1.Pod) (failures, ignored int32) {
	if replaced == nil {
		return 0, 0
	}
	failures, ignored = annotatedCount(replaced, failureCount), annotatedCount(replaced, ignoredFailureCount)
	if r.verdict(replaced).counts() {
		return increment(failures), ignored
	}
	return failures, increment(ignored)
}

func increment(n int32) int32 {
	if n == math.MaxInt32 {
		return n
	}
	return n + 1
}

// allFailures returns the number of failures of an index before the pod, including ignored
// ones.
func allFailures(pod *corev1.Pod) int {
	return int(annotatedCount(pod, failureCount)) + int(annotatedCount(pod, ignoredFailureCount))
}

// annotatedCount returns the count in an annotation, 0 if it is missing or invalid.
func annotatedCount(pod *corev1.Pod, annotation string) int32 {
	n, err := strconv.ParseInt(pod.Annotations[annotation], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}
