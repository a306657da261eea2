package pods_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/pods"
)

func TestDisruptionPatch(t *testing.T) {
	condition := func(change ...func(*corev1.PodCondition)) corev1.PodCondition {
		c := corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "R", Message: "M",
			LastTransitionTime: metav1.NewTime(time.Unix(2, 0).UTC()),
		}
		for _, f := range change {
			f(&c)
		}
		return c
	}
	earlier := func(c *corev1.PodCondition) { c.LastTransitionTime = metav1.NewTime(time.Unix(1, 0).UTC()) }
	patch := func(seconds string) string {
		return `{"metadata":{"uid":"uid"},"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastProbeTime":null,` +
			`"lastTransitionTime":"1970-01-01T00:00:0` + seconds + `Z","reason":"R","message":"M"}]}}`
	}
	for name, tc := range map[string]struct {
		has  []corev1.PodCondition
		want string
	}{
		"no condition":       {nil, patch("2")},
		"this one, earlier":  {[]corev1.PodCondition{condition(earlier)}, ""},
		"for another reason": {[]corev1.PodCondition{condition(earlier, func(c *corev1.PodCondition) { c.Reason = "x" })}, patch("1")},
		"another message":    {[]corev1.PodCondition{condition(earlier, func(c *corev1.PodCondition) { c.Message = "x" })}, patch("1")},
		"probed":             {[]corev1.PodCondition{condition(earlier, func(c *corev1.PodCondition) { c.LastProbeTime = metav1.NewTime(time.Unix(1, 0)) })}, patch("1")},
		"not true":           {[]corev1.PodCondition{condition(earlier, func(c *corev1.PodCondition) { c.Status = corev1.ConditionFalse })}, patch("2")},
		"another condition":  {[]corev1.PodCondition{condition(earlier, func(c *corev1.PodCondition) { c.Type = corev1.PodReady })}, patch("2")},
	} {
		got, err := pods.DisruptionPatch(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Status: corev1.PodStatus{Conditions: tc.has}}, condition())
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}
