package job

import (
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// observation is a Job and its pods as one reconcile finds them, and what it makes of
// them. It is filled in by observe and brought forward as the reconcile acts.
type observation struct {
	// job is a copy; its status becomes what the reconcile reports.
	job *batchv1.Job
	key types.NamespacedName
	now time.Time
	// settled is false while the caches do not show all pods that were created and
	// deleted before.
	settled bool
	// replacement is how its terminating pods are dealt with.
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
	// succeeded and failed are all that ever did, those not in the status included.
	succeeded, failed int32
	backoff           backoffRecord
	// verdicts holds what the failure policy says of failed pods.
	verdicts map[types.UID]verdict

	indexed indexState

	// end is the condition that ends the Job, nil while it goes on.
	end *batchv1.JobCondition
	// wakeUps are delays after which the Job must be looked at although nothing happened.
	wakeUps []time.Duration
	// reported is the status as it was last written.
	reported batchv1.JobStatus
	// suspension is the event of a change of suspension that has to be told.
	suspension *event
	// podGroup is the name of the PodGroup of new pods, empty if they have none.
	podGroup string
}

// event is what is told to users of a Job.
type event struct{ reason, message string }

// observe judges a Job by its pods. last is its back-off record.
func observe(job *batchv1.Job, r replacement, all []*corev1.Pod, removed sets.Set[types.UID], last backoffRecord, now time.Time) *observation {
	o := &observation{
		job:         job,
		key:         keyOf(job),
		now:         now,
		replacement: r,
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
	o.classify()
	o.countFinished()
	o.backoff = last.after(o.newSucceeded, o.newFailed)
	if isIndexed(job) {
		o.indexed = o.observeIndexes()
		o.succeeded = int32(o.indexed.succeeded.count())
	}
	return o
}

func (o *observation) classify() {
	for _, pod := range o.pods {
		switch {
		case pods.IsActive(pod):
			o.active = append(o.active, pod)
			if pods.IsReady(pod) {
				o.ready++
			}
		case pods.IsTerminating(pod):
			o.terminating++
		}
	}
}

// countFinished finds the pods that have finished since the last status and adds them to
// those that it counts.
func (o *observation) countFinished() {
	status := &o.job.Status
	uncounted := status.UncountedTerminatedPods
	succeeded, failed := sets.New(uncounted.Succeeded...), sets.New(uncounted.Failed...)
	o.succeeded = status.Succeeded + int32(len(uncounted.Succeeded))
	o.failed = status.Failed + int32(len(uncounted.Failed))
	for _, pod := range o.pods {
		if !o.tracks(pod) || isIndexed(o.job) && !o.validIndex(indexOf(pod)) {
			continue
		}
		switch {
		case pod.Status.Phase == corev1.PodSucceeded && !succeeded.Has(pod.UID):
			o.newSucceeded = append(o.newSucceeded, pod)
			o.succeeded++
		case o.isFailed(pod) && !failed.Has(pod.UID):
			o.newFailed = append(o.newFailed, pod)
			if o.verdict(pod).counts() {
				o.failed++
			}
		}
	}
}

// tracks reports that a pod has the finalizer, as far as this process knows.
func (o *observation) tracks(pod *corev1.Pod) bool {
	return isTracked(pod) && !o.removed.Has(pod.UID)
}

func (o *observation) validIndex(i int) bool {
	return i != unknownIndex && i < completionsOf(o.job)
}

// verdict is what the failure policy says of a failed pod.
func (o *observation) verdict(pod *corev1.Pod) verdict {
	if o.job.Spec.PodFailurePolicy == nil {
		return verdict{}
	}
	v, ok := o.verdicts[pod.UID]
	if !ok {
		v = judgeFailure(o.job.Spec.PodFailurePolicy, pod)
		o.verdicts[pod.UID] = v
	}
	return v
}

// wakeUp has the Job looked at again after a delay.
func (o *observation) wakeUp(after time.Duration) { o.wakeUps = append(o.wakeUps, after) }

// activeCount is the number of active pods, those created since included.
func (o *observation) activeCount() int32 { return int32(len(o.active)) + o.created.Load() }
