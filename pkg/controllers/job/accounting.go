package job

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// maxUncounted is the number of pods counted in one reconcile, which bounds the size of
// the status.
const maxUncounted = 500

// accounting moves finished pods into the status, each exactly once:
//
//  1. A finished pod keeps its finalizer, and so exists, until the status holds its UID
//     (or, of an Indexed Job, its index).
//  2. Then the finalizer is removed.
//  3. Once no finalizer remains, the UID leaves the status and the counter grows.
//
// A crash between any two steps loses and repeats nothing (kubernetes/kubernetes#104666). This
// file holds the decisions; track makes the requests in between.
type accounting struct {
	r *reconciliation
	// tracked are the pods that may still have the finalizer.
	tracked sets.Set[types.UID]
	// removable are the pods whose finalizer can be removed once the status is written.
	removable []*corev1.Pod
	// changed means that the status has to be written.
	changed bool
	// full means that pods were left for the next reconcile.
	full bool
	// handled counts the failures that a rule of the failure policy matched.
	handled map[batchv1.PodFailurePolicyAction]int
	// newIndexes are succeeded indexes of removable pods that the status does not have yet.
	newIndexes map[int]bool
}

func newAccounting(r *reconciliation, changed bool) *accounting {
	a := &accounting{
		r:          r,
		tracked:    sets.New[types.UID](),
		changed:    changed,
		handled:    map[batchv1.PodFailurePolicyAction]int{},
		newIndexes: map[int]bool{},
	}
	for _, pod := range r.pods {
		if r.tracks(pod) {
			a.tracked.Insert(pod.UID)
		}
	}
	return a
}

// moveToCounters moves pods that have lost their finalizer from the UIDs in the status to its counters.
func (a *accounting) moveToCounters() {
	status := &a.r.job.Status
	uncounted := status.UncountedTerminatedPods
	status.Succeeded += a.keepTracked(&uncounted.Succeeded)
	status.Failed += a.keepTracked(&uncounted.Failed)
}

func (a *accounting) keepTracked(uids *[]types.UID) (dropped int32) {
	var kept []types.UID
	for _, uid := range *uids {
		if a.tracked.Has(uid) {
			kept = append(kept, uid)
		}
	}
	dropped = int32(len(*uids) - len(kept))
	if dropped > 0 {
		*uids, a.changed = kept, true
	}
	return dropped
}

// count chooses the pods whose finalizer can be removed and adds them to the status. For an
// Indexed Job, those with the lowest indexes come first. Once the status is full, only those that it names follow: they
// make room.
func (a *accounting) count() {
	all := a.r.pods
	if isIndexed(a.r.job) {
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(x, y *corev1.Pod) int { return cmp.Compare(indexOf(x), indexOf(y)) })
	}
	uncounted := a.r.job.Status.UncountedTerminatedPods
	failed, succeeded := sets.New(uncounted.Failed...), sets.New(uncounted.Succeeded...)
	isFull := func() bool {
		return len(a.newIndexes)+len(uncounted.Succeeded)+len(uncounted.Failed) >= maxUncounted
	}
	a.full = isFull()
	for _, pod := range all {
		isNamed := failed.Has(pod.UID) || succeeded.Has(pod.UID)
		if !a.r.tracks(pod) || !a.isRemovable(pod) || a.full && !isNamed {
			continue
		}
		a.removable = append(a.removable, pod)
		switch {
		case pod.Status.Phase == corev1.PodSucceeded && !failed.Has(pod.UID):
			a.countSuccess(pod, succeeded)
		case a.r.isFailed(pod) || a.r.end != nil && a.r.end.Type != batchv1.JobSuccessCriteriaMet:
			// Pods that have not finished when the Job fails count as failed.
			a.countFailure(pod, failed, succeeded)
		}
		a.full = isFull()
	}
}

func (a *accounting) isRemovable(pod *corev1.Pod) bool {
	if a.r.job.DeletionTimestamp != nil || a.r.end != nil || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	return a.r.isFailed(pod) && a.r.indexed.retained[indexOf(pod)] != pod
}

func (a *accounting) countSuccess(pod *corev1.Pod, known sets.Set[types.UID]) {
	if isIndexed(a.r.job) {
		if i := indexOf(pod); a.r.validIndex(i) && !a.r.indexed.counted.has(i) && !a.r.indexed.failed.has(i) {
			a.newIndexes[i] = true
		}
		return
	}
	if known.Has(pod.UID) {
		return
	}
	uncounted := a.r.job.Status.UncountedTerminatedPods
	uncounted.Succeeded = append(uncounted.Succeeded, pod.UID)
	a.changed = true
}

// countFailure adds a failed pod to the status, unless that has it as failed or succeeded. The API server refuses a pod
// that is both (kubernetes/kubernetes#125410).
func (a *accounting) countFailure(pod *corev1.Pod, failed, succeeded sets.Set[types.UID]) {
	if failed.Has(pod.UID) || succeeded.Has(pod.UID) || isIndexed(a.r.job) && !a.r.validIndex(indexOf(pod)) {
		return
	}
	v := a.r.verdict(pod)
	if v.action != "" {
		a.handled[v.action]++
	}
	if !v.counts() {
		return
	}
	uncounted := a.r.job.Status.UncountedTerminatedPods
	uncounted.Failed = append(uncounted.Failed, pod.UID)
	a.changed = true
}

// reportIndexes writes all indexes to the status, including those of pods that are left for the
// next reconcile. These keep their finalizer, and an index is never counted twice; so success
// is never reported with fewer indexes than it requires.
func (a *accounting) reportIndexes() {
	if !isIndexed(a.r.job) {
		return
	}
	status := &a.r.job.Status
	completed := a.r.indexed.succeeded
	if text, n := completed.String(), int32(completed.count()); text != status.CompletedIndexes || n != status.Succeeded {
		status.CompletedIndexes, status.Succeeded, a.changed = text, n, true
	}
	var failed *string
	if hasBackoffPerIndex(a.r.job) {
		failed = ptr.To(a.r.indexed.failed.String())
	}
	if !ptr.Equal(status.FailedIndexes, failed) {
		status.FailedIndexes, a.changed = failed, true
	}
}

// announceEnd sets the condition that reports how the Job will end.
func (a *accounting) announceEnd() {
	job, end := a.r.job, a.r.end
	switch {
	case end == nil:
		return
	case end.Type == batchv1.JobFailureTarget,
		end.Type == batchv1.JobSuccessCriteriaMet && trueCondition(job, end.Type) == nil:
		job.Status.Conditions = append(job.Status.Conditions, *end)
		a.changed = true
	}
}

// declareEnd sets and returns the terminal condition if all pods of the Job are accounted for.
func (a *accounting) declareEnd() *batchv1.JobCondition {
	job, end := a.r.job, a.r.end
	uncounted := job.Status.UncountedTerminatedPods
	if end == nil || a.full || a.r.terminating > 0 || len(uncounted.Succeeded)+len(uncounted.Failed) > 0 {
		return nil
	}
	kind := batchv1.JobFailed
	if end.Type == batchv1.JobSuccessCriteriaMet {
		kind = batchv1.JobComplete
	}
	terminal := newCondition(kind, corev1.ConditionTrue, end.Reason, end.Message, a.r.now)
	ensureCondition(job, terminal)
	if job.Status.StartTime == nil && ptr.Deref(job.Spec.Completions, 1) > 0 {
		// It is suspended. The API server refuses the end of a Job that has not started, unless it has nothing to do.
		job.Status.StartTime = terminal.LastTransitionTime.DeepCopy()
	}
	if kind == batchv1.JobComplete {
		job.Status.CompletionTime = completionTime(job, terminal)
	}
	a.changed = true
	return terminal
}

// completionTime returns the time of the condition, but not before the start, which may have
// been recorded by a machine whose clock is ahead: the API server would reject that.
func completionTime(job *batchv1.Job, complete *batchv1.JobCondition) *metav1.Time {
	if start := job.Status.StartTime; start != nil && complete.LastTransitionTime.Before(start) {
		return start.DeepCopy()
	}
	return complete.LastTransitionTime.DeepCopy()
}

// reportCounts writes the pod counts to the status and reports whether any has changed.
func (r *reconciliation) reportCounts() bool {
	status := &r.job.Status
	active := r.activeCount()
	var terminating *int32
	if r.reportsTerminating {
		terminating = ptr.To(r.terminating)
	}
	same := status.Active == active && ptr.Equal(status.Ready, &r.ready) && ptr.Equal(status.Terminating, terminating)
	if !same {
		status.Active, status.Ready, status.Terminating = active, ptr.To(r.ready), terminating
	}
	return !same
}
