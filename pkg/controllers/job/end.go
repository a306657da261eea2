package job

import (
	"math"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// decideEnd returns the condition that ends the Job, nil if it continues. The first of these
// decides: a result that was reported before, failure, success.
func (r *reconciliation) decideEnd() *batchv1.JobCondition {
	for _, rule := range []func() *batchv1.JobCondition{
		r.decidedBefore, r.failedByPolicy, r.pastBackoffLimit, r.pastDeadline, r.failedIndexes, r.succeededByPolicy,
	} {
		if condition := rule(); condition != nil {
			return condition
		}
	}
	return nil
}

func (r *reconciliation) fail(reason, message string) *batchv1.JobCondition {
	return newCondition(batchv1.JobFailureTarget, corev1.ConditionTrue, reason, message, r.now)
}

// decidedBefore returns the result that was reported before. A Job whose failure has been
// reported becomes Failed directly.
func (r *reconciliation) decidedBefore() *batchv1.JobCondition {
	if c := trueCondition(r.job, batchv1.JobSuccessCriteriaMet); c != nil {
		return c.DeepCopy()
	}
	if c := trueCondition(r.job, batchv1.JobFailureTarget); c != nil {
		return newCondition(batchv1.JobFailed, corev1.ConditionTrue, c.Reason, c.Message, r.now)
	}
	return nil
}

func (r *reconciliation) failedByPolicy() *batchv1.JobCondition {
	if r.job.Spec.PodFailurePolicy == nil {
		return nil
	}
	for _, pod := range r.pods {
		if !r.isFailed(pod) {
			continue
		}
		if v := r.verdict(pod); v.action == batchv1.PodFailurePolicyActionFailJob {
			return r.fail(batchv1.JobReasonPodFailurePolicy, v.message)
		}
	}
	return nil
}

func (r *reconciliation) pastBackoffLimit() *batchv1.JobCondition {
	limit := backoffLimit(r.job)
	if r.failed > limit || restartedTooOften(r.job, r.pods, limit) {
		return r.fail(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	}
	return nil
}

func backoffLimit(job *batchv1.Job) int32 {
	if hasBackoffPerIndex(job) {
		return ptr.Deref(job.Spec.BackoffLimit, math.MaxInt32)
	}
	return ptr.Deref(job.Spec.BackoffLimit, 6)
}

// restartedTooOften applies the limit to restarts of containers, where a kubelet restarts
// them instead of letting the pod fail.
func restartedTooOften(job *batchv1.Job, all []*corev1.Pod, limit int32) bool {
	if job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	restarts := int32(0)
	for _, pod := range all {
		if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodPending {
			continue
		}
		for i := range pod.Status.InitContainerStatuses {
			restarts += pod.Status.InitContainerStatuses[i].RestartCount
		}
		for i := range pod.Status.ContainerStatuses {
			restarts += pod.Status.ContainerStatuses[i].RestartCount
		}
	}
	if limit == 0 {
		return restarts > 0
	}
	return restarts >= limit
}

// pastDeadline does not judge a Job that is about to be resumed: its start time, possibly still that of its first run,
// is reset together with the condition.
func (r *reconciliation) pastDeadline() *batchv1.JobCondition {
	if isSuspended(r.job) || trueCondition(r.job, batchv1.JobSuspended) != nil {
		return nil
	}
	remaining, ok := untilDeadline(r.job, r.now)
	if !ok {
		return nil
	}
	if remaining <= 0 {
		return r.fail(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	r.wakeUp(min(remaining, reconcile.LongestWait))
	return nil
}

// maxSeconds is the number of seconds that fit in a time.Duration.
const maxSeconds = int64(math.MaxInt64 / time.Second)

// untilDeadline returns false for a Job that has no deadline or has not started.
func untilDeadline(job *batchv1.Job, now time.Time) (time.Duration, bool) {
	if job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil {
		return 0, false
	}
	deadline := time.Duration(min(*job.Spec.ActiveDeadlineSeconds, maxSeconds)) * time.Second
	return job.Status.StartTime.Add(deadline).Sub(now), true // does not overflow
}

func (r *reconciliation) failedIndexes() *batchv1.JobCondition {
	if !hasBackoffPerIndex(r.job) {
		return nil
	}
	failed := r.indexed.failed.count()
	switch {
	case r.job.Spec.MaxFailedIndexes != nil && failed > int(*r.job.Spec.MaxFailedIndexes):
		return r.fail(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	case failed > 0 && failed+r.indexed.succeeded.count() >= completionsOf(r.job):
		return r.fail(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	return nil
}

func (r *reconciliation) succeededByPolicy() *batchv1.JobCondition {
	if !isIndexed(r.job) {
		return nil
	}
	message, ok := judgeSuccess(r.job.Spec.SuccessPolicy, completionsOf(r.job), r.indexed.succeeded)
	if !ok {
		return nil
	}
	return newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonSuccessPolicy, message, r.now)
}

// reachedCompletions returns the condition of success if enough pods have succeeded and none is
// running.
func (r *reconciliation) reachedCompletions(active int32) *batchv1.JobCondition {
	done := r.succeeded > 0
	if r.job.Spec.Completions != nil {
		done = r.succeeded >= *r.job.Spec.Completions
	}
	if !done || active > 0 {
		return nil
	}
	return newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue,
		batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods", r.now)
}
