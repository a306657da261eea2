package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Pins JOB-75.
func TestJudgeFailure(t *testing.T) {
	with := func(rule batchv1.PodFailurePolicyRule, change func(*batchv1.PodFailurePolicyOnExitCodesRequirement)) batchv1.PodFailurePolicyRule {
		rule.OnExitCodes = rule.OnExitCodes.DeepCopy()
		change(rule.OnExitCodes)
		return rule
	}
	onCondition := func(action batchv1.PodFailurePolicyAction, status corev1.ConditionStatus) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: "Other", Status: corev1.ConditionTrue}, {Type: corev1.DisruptionTarget, Status: status},
		}}
	}
	const fail, count = batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionCount
	const ignore, failIndex = batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionFailIndex
	disrupted := func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
	}
	initFailed := func(p *corev1.Pod) {
		failed(p)
		p.Status.InitContainerStatuses = newPod("x", exited(5, 0)).Status.ContainerStatuses
		p.Status.InitContainerStatuses[0].Name = "init"
	}
	exit5 := newPod("p", exited(5, 0))
	for _, test := range []struct {
		name   string
		rules  []batchv1.PodFailurePolicyRule
		pod    *corev1.Pod
		want   verdict
		counts bool
	}{
		{"no rules", nil, exit5, verdict{}, true},
		{"no match", []batchv1.PodFailurePolicyRule{onExit(fail, 4)}, exit5, verdict{}, true},
		{"fail the job", []batchv1.PodFailurePolicyRule{onExit(fail, 4, 5)}, exit5,
			verdict{fail, "Container c for pod ns/p failed with exit code 5 matching FailJob rule at index 0"}, true},
		{"the first match decides", []batchv1.PodFailurePolicyRule{onExit(ignore, 4), onExit(ignore, 5), onExit(fail, 5)}, exit5, verdict{action: ignore}, false},
		{"an unknown action is passed over", []batchv1.PodFailurePolicyRule{onExit("Future", 5), onExit(count, 5)}, exit5, verdict{action: count}, true},
		{"fail the index", []batchv1.PodFailurePolicyRule{onExit(failIndex, 5)}, exit5, verdict{action: failIndex}, true},
		{"not in", []batchv1.PodFailurePolicyRule{with(onExit(ignore, 4), func(r *batchv1.PodFailurePolicyOnExitCodesRequirement) {
			r.Operator = batchv1.PodFailurePolicyOnExitCodesOpNotIn
		})}, exit5, verdict{action: ignore}, false},
		{"success is never not in", []batchv1.PodFailurePolicyRule{with(onExit(ignore, 4), func(r *batchv1.PodFailurePolicyOnExitCodesRequirement) {
			r.Operator = batchv1.PodFailurePolicyOnExitCodesOpNotIn
		})}, newPod("p", exited(0, 0)), verdict{}, true},
		{"an unknown operator", []batchv1.PodFailurePolicyRule{with(onExit(ignore, 5), func(r *batchv1.PodFailurePolicyOnExitCodesRequirement) {
			r.Operator = "Near"
		})}, exit5, verdict{}, true},
		{"another container", []batchv1.PodFailurePolicyRule{with(onExit(ignore, 5), func(r *batchv1.PodFailurePolicyOnExitCodesRequirement) {
			r.ContainerName = ptr.To("other")
		})}, exit5, verdict{}, true},
		{"the container", []batchv1.PodFailurePolicyRule{with(onExit(ignore, 5), func(r *batchv1.PodFailurePolicyOnExitCodesRequirement) {
			r.ContainerName = ptr.To("c")
		})}, exit5, verdict{action: ignore}, false},
		{"an init container", []batchv1.PodFailurePolicyRule{onExit(fail, 5)}, newPod("p", initFailed),
			verdict{fail, "Container init for pod ns/p failed with exit code 5 matching FailJob rule at index 0"}, true},
		{"a condition", []batchv1.PodFailurePolicyRule{onExit(ignore, 1), onCondition(fail, corev1.ConditionTrue)}, newPod("p", failed, disrupted),
			verdict{fail, "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 1"}, true},
		{"a condition of another status", []batchv1.PodFailurePolicyRule{onCondition(ignore, corev1.ConditionFalse)}, newPod("p", failed, disrupted), verdict{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := judgeFailure(&batchv1.PodFailurePolicy{Rules: test.rules}, test.pod)
			if got != test.want || got.counts() != test.counts {
				t.Errorf("got %+v, counts %t", got, got.counts())
			}
		})
	}
	if got := judgeFailure(nil, exit5); got != (verdict{}) {
		t.Errorf("without a policy: %+v", got)
	}
}

// Pins JOB-76.
func TestJudgeSuccess(t *testing.T) {
	rule := func(indexes string, count int32) batchv1.SuccessPolicyRule {
		var r batchv1.SuccessPolicyRule
		if indexes != "-" {
			r.SucceededIndexes = &indexes
		}
		if count >= 0 {
			r.SucceededCount = &count
		}
		return r
	}
	for _, test := range []struct {
		name      string
		rules     []batchv1.SuccessPolicyRule
		succeeded string
		want      string
	}{
		{"nothing succeeded", []batchv1.SuccessPolicyRule{rule("-", 0)}, "", ""},
		{"all of the indexes", []batchv1.SuccessPolicyRule{rule("1-3", -1)}, "1-3,9", "Matched rules at index 0"},
		{"some of the indexes", []batchv1.SuccessPolicyRule{rule("1-3", -1)}, "1,3", ""},
		{"enough of the indexes", []batchv1.SuccessPolicyRule{rule("1-3", 2)}, "1,3", "Matched rules at index 0"},
		{"enough, but others", []batchv1.SuccessPolicyRule{rule("1-3", 2)}, "1,4-6", ""},
		{"the count", []batchv1.SuccessPolicyRule{rule("-", 2)}, "1,4", "Matched rules at index 0"},
		{"less than the count", []batchv1.SuccessPolicyRule{rule("-", 3)}, "1,4", ""},
		{"the second rule", []batchv1.SuccessPolicyRule{rule("5", -1), rule("4", -1)}, "1,4", "Matched rules at index 1"},
		{"no index below completions", []batchv1.SuccessPolicyRule{rule("50", 0)}, "1", ""},
		{"a rule that says nothing", []batchv1.SuccessPolicyRule{rule("-", -1)}, "1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := judgeSuccess(&batchv1.SuccessPolicy{Rules: test.rules}, 10, parseIndexes(test.succeeded, 10))
			if got != test.want || ok != (test.want != "") {
				t.Errorf("got %q, %t", got, ok)
			}
		})
	}
	if _, ok := judgeSuccess(nil, 10, parseIndexes("0-9", 10)); ok {
		t.Error("met without a policy")
	}
}
