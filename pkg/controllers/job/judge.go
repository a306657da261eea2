package job

import (
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// unknownIndex is the index of a pod without a valid index.
const unknownIndex = -1

func isIndexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
}

// knownMode returns false for a completion mode of a newer API.
func knownMode(job *batchv1.Job) bool {
	return job.Spec.CompletionMode == nil || isIndexed(job) || *job.Spec.CompletionMode == batchv1.NonIndexedCompletion
}

func modeOf(job *batchv1.Job) string {
	if isIndexed(job) {
		return string(batchv1.IndexedCompletion)
	}
	return string(batchv1.NonIndexedCompletion)
}

func isSuspended(job *batchv1.Job) bool { return ptr.Deref(job.Spec.Suspend, false) }

// hasBackoffPerIndex reports whether each index of a Job has a failure limit of its own.
func hasBackoffPerIndex(job *batchv1.Job) bool {
	return isIndexed(job) && job.Spec.BackoffLimitPerIndex != nil
}

// completionsOf returns the number of indexes of an Indexed Job.
func completionsOf(job *batchv1.Job) int { return int(ptr.Deref(job.Spec.Completions, 0)) }

// managedElsewhere reports whether another controller is responsible for a Job. Without the
// gate JobManagedBy there is none.
func (c *jobController) managedElsewhere(job *batchv1.Job) bool {
	return c.config.managedBy && job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName
}

// replacement is how the terminating pods of a Job are treated.
type replacement struct {
	// failsWhenTerminated: a terminating pod counts as failed only when it has finished.
	failsWhenTerminated bool
	// replacesWhenTerminated: a terminating pod is replaced only when it has finished.
	replacesWhenTerminated bool
	// reportsTerminating: terminating pods appear in the status and in the reason for new pods.
	reportsTerminating bool
}

// replacementOf reads the policies of a Job. A failure policy depends on how a pod ends.
// Without the gate JobPodReplacementPolicy there is no replacement policy: the controller
// neither waits for terminating pods nor reports them.
func replacementOf(job *batchv1.Job, gate bool) replacement {
	policy := job.Spec.PodReplacementPolicy
	failsWhenTerminated := job.Spec.PodFailurePolicy != nil || gate && policy != nil && *policy == batchv1.Failed
	return replacement{
		failsWhenTerminated:    failsWhenTerminated,
		replacesWhenTerminated: gate && failsWhenTerminated,
		reportsTerminating:     gate,
	}
}

// isFailed reports whether a pod counts as failed.
func (r replacement) isFailed(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return !r.failsWhenTerminated && pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded
}

func isTracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// indexOf returns the completion index of a pod.
func indexOf(pod *corev1.Pod) int {
	i, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || i < 0 {
		return unknownIndex
	}
	return i
}

// sidecarsOf returns the names of the restartable init containers of a pod.
func sidecarsOf(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			names[c.Name] = true
		}
	}
	return names
}

// finishTime returns when a pod finished, as precisely as its status shows.
func finishTime(pod *corev1.Pod) time.Time {
	if at := containersFinished(pod); !at.IsZero() {
		return at
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if pod.DeletionTimestamp != nil {
		grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
		return pod.DeletionTimestamp.Add(-grace)
	}
	return pod.CreationTimestamp.Time
}

// containersFinished returns when the last container ended, zero if unknown. If a regular
// container has not ended, the end of all sidecars counts.
func containersFinished(pod *corev1.Pod) time.Time {
	latest, _ := latestFinish(pod.Status.ContainerStatuses, nil)
	if len(pod.Status.InitContainerStatuses) == 0 {
		return latest
	}
	sidecars, ok := latestFinish(pod.Status.InitContainerStatuses, sidecarsOf(pod))
	if !ok {
		return time.Time{}
	}
	if sidecars.After(latest) {
		return sidecars
	}
	return latest
}

// latestFinish returns when the last of the containers ended, restricted to the given names if
// there are any, and false if one has not ended.
func latestFinish(statuses []corev1.ContainerStatus, names map[string]bool) (time.Time, bool) {
	var latest time.Time
	for i := range statuses {
		if names != nil && !names[statuses[i].Name] {
			continue
		}
		ended := statuses[i].State.Terminated
		if ended == nil || ended.FinishedAt.IsZero() {
			return time.Time{}, false
		}
		if ended.FinishedAt.After(latest) {
			latest = ended.FinishedAt.Time
		}
	}
	return latest, true
}
