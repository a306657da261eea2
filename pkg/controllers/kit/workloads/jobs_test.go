package workloads

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestFinishOf(t *testing.T) {
	is := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: status}
	}
	for name, tc := range map[string]struct {
		conditions []batchv1.JobCondition
		want       batchv1.JobConditionType // empty: not finished
	}{
		"none":              {},
		"complete":          {[]batchv1.JobCondition{is(batchv1.JobSuspended, corev1.ConditionTrue), is(batchv1.JobComplete, corev1.ConditionTrue)}, batchv1.JobComplete},
		"failed":            {[]batchv1.JobCondition{is(batchv1.JobFailed, corev1.ConditionTrue)}, batchv1.JobFailed},
		"not true":          {[]batchv1.JobCondition{is(batchv1.JobFailed, corev1.ConditionFalse), is(batchv1.JobComplete, corev1.ConditionUnknown)}, ""},
		"only about to end": {[]batchv1.JobCondition{is(batchv1.JobFailureTarget, corev1.ConditionTrue), is(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue)}, ""},
		"the first of two":  {[]batchv1.JobCondition{is(batchv1.JobFailed, corev1.ConditionTrue), is(batchv1.JobComplete, corev1.ConditionTrue)}, batchv1.JobFailed},
	} {
		got := FinishOf(&batchv1.Job{Status: batchv1.JobStatus{Conditions: tc.conditions}})
		if (got == nil) != (tc.want == "") || got != nil && got.Type != tc.want {
			t.Errorf("%s: got %v, want %q", name, got, tc.want)
		}
	}
}
