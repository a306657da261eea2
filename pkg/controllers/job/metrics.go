package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/writes"
)

const subsystem = "job_controller"

// Why pods are created.
const (
	creationNew                 = "new"
	creationReplacesTerminating = "recreate_terminating_or_failed"
	creationReplacesFailed      = "recreate_failed"
)

// Results of reconciles, creations, pods and Jobs.
const (
	resultSuccess   = "success"
	resultError     = "error"
	resultSucceeded = "succeeded"
	resultFailed    = "failed"
)

// controllerMetrics counts from the start of the instance, including pods and Jobs that exist
// at that time: so the difference between terminated pods that gained and lost the finalizer is
// the number of those that have it.
type controllerMetrics struct {
	syncDuration       *metrics.HistogramVec
	syncs              *metrics.CounterVec
	finishedJobs       *metrics.CounterVec
	finishedPods       *metrics.CounterVec
	failuresByPolicy   *metrics.CounterVec
	terminatedTracking *metrics.CounterVec
	externalJobs       *metrics.CounterVec
	otherControllers   controller.LabelValues
	staleSyncs         writes.StaleSyncs
	finishedIndexes    *metrics.CounterVec
	createdPods        *metrics.CounterVec
}

func newMetrics(registry controller.MetricsRegistry) *controllerMetrics {
	counter := func(name, help string, level metrics.StabilityLevel, labels ...string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: level}, labels)
	}
	m := &controllerMetrics{
		syncDuration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem:      subsystem,
			Name:           "job_sync_duration_seconds",
			Help:           "The time it took to sync a job",
			Buckets:        metrics.ExponentialBuckets(0.004, 2, 15),
			StabilityLevel: metrics.STABLE,
		}, []string{"completion_mode", "result", "action"}),
		syncs: counter("job_syncs_total", "The number of job syncs.",
			metrics.STABLE, "completion_mode", "result", "action"),
		finishedJobs: counter("jobs_finished_total", "The number of finished jobs, by the reason of their last condition.",
			metrics.STABLE, "completion_mode", "result", "reason"),
		finishedPods: counter("job_pods_finished_total", "The number of finished Pods that are fully tracked.",
			metrics.STABLE, "completion_mode", "result"),
		failuresByPolicy: counter("pod_failures_handled_by_failure_policy_total",
			"The number of failed Pods that a rule of a failure policy matched, by its action.",
			metrics.BETA, "action"),
		terminatedTracking: counter("terminated_pods_tracking_finalizer_total",
			"The number of terminated pods (phase Failed or Succeeded) that gained (add) or lost (delete) the finalizer batch.kubernetes.io/job-tracking.",
			metrics.BETA, "event"),
		externalJobs: counter("jobs_by_external_controller_total",
			"The number of Jobs that another controller manages.",
			metrics.ALPHA, "controller_name"),
		staleSyncs: writes.NewStaleSyncs(registry, subsystem),
		finishedIndexes: counter("job_finished_indexes_total",
			"The number of finished indexes, by whether they have a backoff limit of their own.",
			metrics.ALPHA, "status", "backoffLimit"),
		createdPods: counter("job_pods_creation_total",
			"The number of Pods that the controller tried to create, by reason. All count as succeeded; those that failed count as failed too.",
			metrics.ALPHA, "reason", "status"),
	}
	registry.MustRegister(m.syncDuration, m.syncs, m.finishedJobs, m.finishedPods, m.failuresByPolicy,
		m.terminatedTracking, m.externalJobs, m.finishedIndexes, m.createdPods)
	return m
}

func (m *controllerMetrics) synced(job *batchv1.Job, action string, err error, took time.Duration) {
	result := resultSuccess
	if err != nil {
		result = resultError
	}
	m.syncs.WithLabelValues(modeOf(job), result, action).Inc()
	m.syncDuration.WithLabelValues(modeOf(job), result, action).Observe(took.Seconds())
}

func (m *controllerMetrics) externallyManaged(by string) {
	m.externalJobs.WithLabelValues(m.otherControllers.Of(by)).Inc()
}

// trackingChanged counts a pod that finished with the finalizer, or lost it after it
// finished. Either state is nil if there is none.
func (m *controllerMetrics) trackingChanged(old, pod *corev1.Pod) {
	was, is := isTerminatedTracked(old), isTerminatedTracked(pod)
	switch {
	case is && !was:
		m.terminatedTracking.WithLabelValues("add").Inc()
	case was && !is:
		m.terminatedTracking.WithLabelValues("delete").Inc()
	}
}

func isTerminatedTracked(pod *corev1.Pod) bool {
	return pod != nil && pods.IsTerminal(pod) && isTracked(pod)
}

func (m *controllerMetrics) failuresHandled(byAction map[batchv1.PodFailurePolicyAction]int) {
	for action, n := range byAction {
		m.failuresByPolicy.WithLabelValues(string(action)).Add(float64(n))
	}
}

// podCreated counts an attempt to create a pod.
func (m *controllerMetrics) podCreated(reason string, err error) {
	m.createdPods.WithLabelValues(reason, resultSucceeded).Inc()
	if err != nil {
		m.createdPods.WithLabelValues(reason, resultFailed).Inc()
	}
}

// creationReason returns why pods are created.
func creationReason(r *reconciliation) string {
	policy := r.job.Spec.PodReplacementPolicy
	switch {
	case !r.reportsTerminating:
		return creationNew
	case policy != nil && *policy == batchv1.Failed && r.failed > 0:
		return creationReplacesFailed
	case r.failed > 0 || r.terminating > 0:
		return creationReplacesTerminating
	}
	return creationNew
}

// podsFinished counts the pods that a newly written status adds to the previous one.
func (m *controllerMetrics) podsFinished(job *batchv1.Job, before *batchv1.JobStatus) {
	mode, status := modeOf(job), &job.Status
	succeeded := int(status.Succeeded) - int(before.Succeeded)
	if isIndexed(job) {
		completions := completionsOf(job)
		succeeded = parseIndexes(status.CompletedIndexes, completions).count() - parseIndexes(before.CompletedIndexes, completions).count()
		limit := "global"
		if hasBackoffPerIndex(job) {
			limit = "perIndex"
			failed := parseIndexes(ptr.Deref(status.FailedIndexes, ""), completions).count() -
				parseIndexes(ptr.Deref(before.FailedIndexes, ""), completions).count()
			add(m.finishedIndexes.WithLabelValues(resultFailed, limit), failed)
		}
		add(m.finishedIndexes.WithLabelValues(resultSucceeded, limit), succeeded)
	}
	add(m.finishedPods.WithLabelValues(mode, resultSucceeded), succeeded)
	add(m.finishedPods.WithLabelValues(mode, resultFailed), int(status.Failed)-int(before.Failed))
}

// add adds n to a counter unless it is negative, as after scaling down a Job.
func add(counter metrics.CounterMetric, n int) {
	if n > 0 {
		counter.Add(float64(n))
	}
}

func (m *controllerMetrics) jobFinished(job *batchv1.Job, terminal *batchv1.JobCondition) {
	result := resultSucceeded
	if terminal.Type == batchv1.JobFailed {
		result = resultFailed
	}
	m.finishedJobs.WithLabelValues(modeOf(job), result, controller.LabelValue(terminal.Reason)).Inc()
}
