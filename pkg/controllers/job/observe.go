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

// observation is the observed state of a Job and its pods in one reconcile, with what is derived from
// it. observe fills it in, and the reconcile updates it as it acts.
type observation struct {
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
func observe(job *batchv1.Job, r replacement, all []*corev1.Pod, removed sets.Set[types.UID], last backoffRecord, now time.Time) *observation {
	o := &observation{
		job:         job,
		key:         reconcile.KeyOf(job),
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
	o.backoff = last.after(o.newSucceeded, o.newFailed, now)
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

// tracks reports whether a pod has the finalizer, and this process has not removed it.
func (o *observation) tracks(pod *corev1.Pod) bool {
	return isTracked(pod) && !o.removed.Has(pod.UID)
}

func (o *observation) validIndex(i int) bool {
	return i != unknownIndex && i < completionsOf(o.job)
}

// verdict returns the result of the failure policy for a failed pod.
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

// wakeUp requests another reconcile after a delay.
func (o *observation) wakeUp(after time.Duration) { o.wakeUps = append(o.wakeUps, after) }

// activeCount returns the number of active pods, including those created in this reconcile.
func (o *observation) activeCount() int32 { return int32(len(o.active)) + o.created.Load() }
