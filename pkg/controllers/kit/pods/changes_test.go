package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pins WL-105.
func TestMatters(t *testing.T) {
	base := func() *corev1.Pod {
		pod := FromTemplate(template(), owner(), *ref())
		pod.UID = "1"
		pod.Status = corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1, 0)}},
		}
		return pod
	}
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   bool
	}{
		{"nothing", func(*corev1.Pod) {}, false},
		{"address", func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }, false},
		{"annotation", func(p *corev1.Pod) { p.Annotations["a"] = "b" }, false},
		{"another condition", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled})
		}, false},
		{"a heartbeat of the condition", func(p *corev1.Pod) { p.Status.Conditions[0].LastProbeTime = metav1.Unix(9, 0) }, false},
		{"uid", func(p *corev1.Pod) { p.UID = "2" }, true},
		{"phase", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		{"deletion", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		{"readiness", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		{"readiness anew", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Unix(2, 0) }, true},
		{"readiness is unknown", func(p *corev1.Pod) { p.Status.Conditions = nil }, true},
		{"labels", func(p *corev1.Pod) { p.Labels["app"] = "b" }, true},
		{"controller", func(p *corev1.Pod) { p.OwnerReferences = nil }, true},
	} {
		changed := base()
		test.change(changed)
		if got, back := Matters(base(), changed), Matters(changed, base()); got != test.want || back != test.want {
			t.Errorf("%s: %v, and %v back", test.name, got, back)
		}
	}
}
