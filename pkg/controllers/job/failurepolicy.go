package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// verdict is the result of applying the failure policy of a Job to a failed pod.
type verdict struct {
	// action is that of the rule that matched, empty if none matched.
	action batchv1.PodFailurePolicyAction
	// message is the cause of the failure if the action is to fail the Job.
	message string
}

// counts reports whether the failure counts towards the limits of the Job.
func (v verdict) counts() bool { return v.action != batchv1.PodFailurePolicyActionIgnore }

// fails reports whether the index of the pod has failed and is not retried.
func (v verdict) fails() bool { return v.action == batchv1.PodFailurePolicyActionFailIndex }

// judgeFailure finds the first rule of a policy that matches a failed pod. Rules with unknown
// actions, of a newer API, are skipped. Without a policy no rule matches.
func judgeFailure(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) verdict {
	if policy == nil {
		return verdict{}
	}
	for i := range policy.Rules {
		rule := &policy.Rules[i]
		if !knownAction(rule.Action) {
			continue
		}
		message, ok := matchRule(rule, i, pod)
		if !ok {
			continue
		}
		v := verdict{action: rule.Action}
		if rule.Action == batchv1.PodFailurePolicyActionFailJob {
			v.message = message
		}
		return v
	}
	return verdict{}
}

func knownAction(action batchv1.PodFailurePolicyAction) bool {
	switch action {
	case batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount,
		batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionFailJob:
		return true
	}
	return false
}

// matchRule reports whether a rule matches, and returns a description of the match.
func matchRule(rule *batchv1.PodFailurePolicyRule, number int, pod *corev1.Pod) (string, bool) {
	if rule.OnExitCodes != nil {
		container := matchExitCodes(rule.OnExitCodes, pod)
		if container == nil {
			return "", false
		}
		return fmt.Sprintf("Container %s for pod %s/%s failed with exit code %v matching %v rule at index %d",
			container.Name, pod.Namespace, pod.Name, container.State.Terminated.ExitCode, rule.Action, number), true
	}
	if condition := matchPodConditions(rule.OnPodConditions, pod); condition != nil {
		return fmt.Sprintf("Pod %s/%s has condition %v matching %v rule at index %d",
			pod.Namespace, pod.Name, condition.Type, rule.Action, number), true
	}
	return "", false
}

// matchExitCodes returns the first container that failed with an exit code that the rule
// requires.
func matchExitCodes(want *batchv1.PodFailurePolicyOnExitCodesRequirement, pod *corev1.Pod) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			status := &statuses[i]
			if status.State.Terminated == nil || want.ContainerName != nil && *want.ContainerName != status.Name {
				continue
			}
			if matchExitCode(want, status.State.Terminated.ExitCode) {
				return status
			}
		}
	}
	return nil
}

func matchExitCode(want *batchv1.PodFailurePolicyOnExitCodesRequirement, code int32) bool {
	if code == 0 {
		return false // it succeeded
	}
	listed := slices.Contains(want.Values, code)
	switch want.Operator {
	case batchv1.PodFailurePolicyOnExitCodesOpIn:
		return listed
	case batchv1.PodFailurePolicyOnExitCodesOpNotIn:
		return !listed
	}
	return false
}

// matchPodConditions returns the first condition of a pod that matches one of the patterns.
func matchPodConditions(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		for _, p := range patterns {
			if p.Type == condition.Type && p.Status == condition.Status {
				return condition
			}
		}
	}
	return nil
}
