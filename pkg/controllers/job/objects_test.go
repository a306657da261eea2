package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

var (
	start     = controllertest.Epoch
	key       = types.NamespacedName{Namespace: "ns", Name: "pi"}
	podLabels = map[string]string{batchv1.ControllerUidLabel: "job-uid", "app": "pi"}
	defaults  = config{
		concurrentSyncs: 5, requireFresh: true, resetStartTimeOfSuspended: true, podReplacementPolicy: true, managedBy: true,
	}
)

// newJob makes a Job that runs one pod to completion.
func newJob(changes ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pi", UID: "job-uid", Generation: 1, ResourceVersion: "10"},
		Spec: batchv1.JobSpec{
			Parallelism:  ptr.To[int32](1),
			Completions:  ptr.To[int32](1),
			BackoffLimit: ptr.To[int32](6),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "job-uid"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, RestartPolicy: corev1.RestartPolicyNever},
			},
		},
	}
	return controllertest.Changed(job, changes...)
}

// sized sets completions, none if negative, and parallelism.
func sized(completions, parallelism int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Spec.Completions, job.Spec.Parallelism = &completions, &parallelism
		if completions < 0 {
			job.Spec.Completions = nil
		}
	}
}

func indexed(job *batchv1.Job) { job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) }

func perIndex(limit int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		indexed(job)
		job.Spec.BackoffLimitPerIndex, job.Spec.BackoffLimit = &limit, nil
	}
}

func suspended(job *batchv1.Job) { job.Spec.Suspend = ptr.To(true) }

func withFailurePolicy(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
}

func onExit(action batchv1.PodFailurePolicyAction, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{
		Action:      action,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes},
	}
}

func replacesFailed(job *batchv1.Job) { job.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed) }

// started is a Job whose status shows that it has run for an hour.
func started(job *batchv1.Job) {
	job.Status.StartTime = &metav1.Time{Time: start.Add(-time.Hour)}
	job.Status.Ready, job.Status.Terminating = ptr.To[int32](0), ptr.To[int32](0)
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
}

func withStatusCondition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason string) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: status, Reason: reason, Message: "because " + reason})
	}
}

// newPod makes a running pod of the Job.
func newPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := controllertest.Pod("ns", name, controllertest.Created(start.Add(-time.Minute)), controllertest.ControlledBy(newJob(), jobKind))
	pod.ResourceVersion, pod.Labels, pod.Finalizers = "20", podLabels, []string{batchv1.JobTrackingFinalizer}
	return controllertest.Changed(pod, changes...)
}

var (
	inPhase, alone    = controllertest.InPhase, controllertest.Orphaned
	succeeded, failed = inPhase(corev1.PodSucceeded), inPhase(corev1.PodFailed)
)

func ready(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

func leaving(pod *corev1.Pod) {
	controllertest.Terminating(pod)
	pod.DeletionGracePeriodSeconds = ptr.To[int64](30)
}

func untracked(pod *corev1.Pod) { pod.Finalizers = nil }

func withFinalizer(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Finalizers = []string{name} }
}

func atIndex(i int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		annotate(pod, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(i))
	}
}

func annotate(pod *corev1.Pod, name, text string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[name] = text
}

func failedBefore(times int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { annotate(pod, failureCount, strconv.Itoa(times)) }
}

// exited is a failed pod whose container ended so long before start.
func exited(code int32, ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(start.Add(-ago))},
		}}}
	}
}

// endedAgo is a succeeded pod whose container ended so long before start.
func endedAgo(ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		exited(0, ago)(pod)
		pod.Status.Phase = corev1.PodSucceeded
	}
}

// look observes a Job as if all its finalizers were as the cache shows.
func look(job *batchv1.Job, all ...*corev1.Pod) *reconciliation {
	r := observe(job, replacementOf(job, true), all, sets.New[types.UID](), backoffRecord{}, start)
	r.settled = true
	return r
}

// conditionsOf are the conditions of a Job as "Type=Status Reason".
func conditionsOf(job *batchv1.Job) string {
	var all []string
	for _, c := range job.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(all, ", ")
}

func conditionText(c *batchv1.JobCondition) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message)
}

// listed splits a list.
func listed(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ", ")
}
