package job

import (
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconciliation is one reconcile of a Job: the observed state of the Job and its pods, what is derived from it, and
// what is to be reported. observe fills it in, and the reconcile updates it as it acts.
type reconciliation struct {
	// job is a copy; its status becomes what the reconcile reports.
	job *batchv1.Job
	key types.NamespacedName
	now time.Time
	// settled is false while the caches do not show all pods that were created and
	// deleted before.
	settled bool
	// replacement is how its terminating pods are treated.
	replacement
	// pods are all that the Job controls.
	pods []*corev1.Pod
	// removed are the pods whose finalizer was removed although the cache may show it.
	removed sets.Set[types.UID]

	active             []*corev1.Pod
	ready, terminating int32
	// created is the number of pods created in this reconcile.
	created atomic.Int32
	// newSucceeded and newFailed have finished and are not in the status yet.
	newSucceeded, newFailed []*corev1.Pod
	// succeeded and failed count all pods that ever did, including those not in the status yet.
	succeeded, failed int32
	backoff           backoffRecord
	sightings         sightings
	// verdicts holds the results of the failure policy for failed pods.
	verdicts map[types.UID]verdict

	indexed indexState

	// end is the condition that ends the Job, nil while it continues.
	end *batchv1.JobCondition
	// wakeUps are delays after which the Job must be reconciled even without an event.
	wakeUps []time.Duration
	// reported is the status as it was last written.
	reported batchv1.JobStatus
	// suspension is the event to record once a change of suspension is written.
	suspension *controller.Event
	// podGroup is the name of the PodGroup of new pods, empty if they have none.
	podGroup string
}

// observe returns the state of a Job and its pods. last is its backoff record.
func observe(job *batchv1.Job, how replacement, all []*corev1.Pod, removed sets.Set[types.UID], last backoffRecord, now time.Time) *reconciliation {
	r := &reconciliation{
		job:         job,
		key:         reconcile.KeyOf(job),
		now:         now,
		replacement: how,
		pods:        all,
		removed:     removed,
		verdicts:    map[types.UID]verdict{},
		reported:    *job.Status.DeepCopy(),
	}
	if job.Status.UncountedTerminatedPods == nil {
		job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	if job.Status.StartTime == nil && !isSuspended(job) {
		start := metav1.NewTime(now)
		job.Status.StartTime = &start
	}
	r.classify()
	r.countFinished()
	r.backoff = last.after(r.newSucceeded, r.newFailed, now)
	if isIndexed(job) {
		r.indexed = r.observeIndexes()
		r.succeeded = int32(r.indexed.succeeded.count())
	}
	return r
}

func (r *reconciliation) classify() {
	for _, pod := range r.pods {
		switch {
		case pods.IsActive(pod):
			r.active = append(r.active, pod)
			if pods.IsReady(pod) {
				r.ready++
			}
		case pods.IsTerminating(pod):
			r.terminating++
		}
	}
}

// countFinished finds the pods that have finished since the last status and adds them to
// those that it counts.
func (r *reconciliation) countFinished() {
	status := &r.job.Status
	uncounted := status.UncountedTerminatedPods
	succeeded, failed := sets.New(uncounted.Succeeded...), sets.New(uncounted.Failed...)
	r.succeeded = status.Succeeded + int32(len(uncounted.Succeeded))
	r.failed = status.Failed + int32(len(uncounted.Failed))
	for _, pod := range r.pods {
		if !r.tracks(pod) || isIndexed(r.job) && !r.validIndex(indexOf(pod)) {
			continue
		}
		switch {
		case pod.Status.Phase == corev1.PodSucceeded && !succeeded.Has(pod.UID) && !failed.Has(pod.UID):
			r.newSucceeded = append(r.newSucceeded, pod)
			r.succeeded++
		case r.isFailed(pod) && !failed.Has(pod.UID) && !succeeded.Has(pod.UID):
			r.newFailed = append(r.newFailed, pod)
			if r.verdict(pod).counts() {
				r.failed++
			}
		}
	}
}

// tracks reports whether a pod has the finalizer, and this process has not removed it.
func (r *reconciliation) tracks(pod *corev1.Pod) bool {
	return isTracked(pod) && !r.removed.Has(pod.UID)
}

func (r *reconciliation) validIndex(i int) bool {
	return i != unknownIndex && i < completionsOf(r.job)
}

// verdict returns the result of the failure policy for a failed pod.
func (r *reconciliation) verdict(pod *corev1.Pod) verdict {
	if r.job.Spec.PodFailurePolicy == nil {
		return verdict{}
	}
	v, ok := r.verdicts[pod.UID]
	if !ok {
		v = judgeFailure(r.job.Spec.PodFailurePolicy, pod)
		r.verdicts[pod.UID] = v
	}
	return v
}

// wakeUp requests another reconcile after a delay.
func (r *reconciliation) wakeUp(after time.Duration) { r.wakeUps = append(r.wakeUps, after) }

// activeCount returns the number of active pods, including those created in this reconcile.
func (r *reconciliation) activeCount() int32 { return int32(len(r.active)) + r.created.Load() }
