package podgc

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Pins PODGC-8 and PODGC-27.
func TestExcess(t *testing.T) {
	ended := func() []*corev1.Pod {
		return []*corev1.Pod{
			pod("young", phase(corev1.PodSucceeded), age(time.Minute)),
			pod("b", phase(corev1.PodSucceeded), age(time.Hour)),
			pod("a", phase(corev1.PodFailed), age(time.Hour)),
			pod("evicted", evicted),
			pod("held", held, phase(corev1.PodFailed), age(2*time.Hour)),
			pod("going", deleting, phase(corev1.PodFailed), age(3*time.Hour)),
			pod("reason-only", phase(corev1.PodSucceeded), age(time.Second), func(p *corev1.Pod) { p.Status.Reason = "Evicted" }),
		}
	}
	for threshold, want := range map[int]string{
		7: "", 8: "", 6: "evicted", 5: "evicted going",
		4: "evicted going", // held counts and is left out
		3: "evicted going a", 1: "evicted going a b young",
	} {
		if got := names(excess(ended(), threshold)); got != want {
			t.Errorf("threshold %d: %q, want %q", threshold, got, want)
		}
	}
}

// Pins PODGC-9.
func TestOutOfService(t *testing.T) {
	for name, tc := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"tainted and not ready":       {node("n", corev1.ConditionFalse, "other", corev1.TaintNodeOutOfService), true},
		"tainted and unknown":         {node("n", corev1.ConditionUnknown, corev1.TaintNodeOutOfService), true},
		"tainted without a condition": {node("n", "", corev1.TaintNodeOutOfService), true},
		"tainted but ready":           {node("n", corev1.ConditionTrue, corev1.TaintNodeOutOfService), false},
		"not ready":                   {node("n", corev1.ConditionFalse), false},
	} {
		if got := isOutOfService(tc.node); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
