package job

import (
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// unknownIndex is the index of a pod that does not tell.
const unknownIndex = -1

func isIndexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
}

// knownMode is false for a completion mode that a newer API server may allow.
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

// hasBackoffPerIndex reports that each index of a Job has a failure limit of its own.
func hasBackoffPerIndex(job *batchv1.Job) bool {
	return isIndexed(job) && job.Spec.BackoffLimitPerIndex != nil
}

// completionsOf is the number of indexes of an Indexed Job.
func completionsOf(job *batchv1.Job) int { return int(ptr.Deref(job.Spec.Completions, 0)) }

// managedElsewhere reports that another controller is responsible for a Job. Without the
// gate JobManagedBy there is none.
func (c *jobController) managedElsewhere(job *batchv1.Job) bool {
	return c.managedBy && job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName
}

// replacement is how the terminating pods of a Job are dealt with.
type replacement struct {
	// failsAtEnd says that such a pod counts as failed only when it has come to its end.
	failsAtEnd bool
	// waitsForEnd says that it is replaced only then.
	waitsForEnd bool
	// told says that the status and the reasons of new pods tell of such pods.
	told bool
}

// replacementOf reads the policies of a Job. A failure policy has to know how a pod ends.
// Without the gate JobPodReplacementPolicy there is no replacement policy: no terminating
// pod is waited for, and nothing tells of any.
func replacementOf(job *batchv1.Job, gate bool) replacement {
	policy := job.Spec.PodReplacementPolicy
	failsAtEnd := job.Spec.PodFailurePolicy != nil || gate && policy != nil && *policy == batchv1.Failed
	return replacement{failsAtEnd: failsAtEnd, waitsForEnd: gate && failsAtEnd, told: gate}
}

// isFailed reports that a pod counts as failed.
func (r replacement) isFailed(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return !r.failsAtEnd && pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded
}

func isTracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// indexOf is the completion index of a pod.
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

// finishTime is when a pod came to its end, as well as its status tells.
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

// containersFinished is when the last container ended, zero if that is not known. A
// regular container that has not ended does not hide when all sidecars did.
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

// latestFinish returns when the last of the containers ended, of those with the names if
// there are any. It is zero and false if one has not.
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
