package horizontalpodautoscaler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/must"
)

// Pins HPA-22a and HPA-24.
func TestScaleToZeroAndBack(t *testing.T) {
	gate := testConfig
	gate.scaleToZero = true
	gate.downscaleStabilization = 0
	h := newHarness(t, gate, withPods(1, newHPA(withMetrics(external("queue", "5", "")), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		hpa.Spec.MinReplicas = ptr.To[int32](0)
	}))...)
	h.scale.Spec.Replicas, h.scale.Status.Replicas = 1, 1
	h.series("0")
	if _, err := h.evaluate(t); err != nil || h.written != nil {
		t.Fatalf("held by the first size: %v, wrote %v", err, h.written)
	}
	h.Clock.Step(time.Second)
	hpa, err := h.evaluate(t)
	if err != nil || !slices.Equal(h.written, []int32{0}) {
		t.Fatalf("%v, wrote %v", err, h.written)
	}
	if got := condition(hpa, autoscalingv2.ScaledToZero); got != "True ScaledToZero: the HPA controller scaled the workload to zero" {
		t.Fatal(got)
	}
	h.sync(t, hpa)
	h.scale.Status.Replicas = 0
	h.series("9")
	h.Clock.Step(time.Second)
	hpa, err = h.evaluate(t)
	if err != nil || h.written[len(h.written)-1] != 2 {
		t.Fatalf("%v, wrote %v", err, h.written)
	}
	if got := condition(hpa, autoscalingv2.ScaledToZero); got != "False NotScaledToZero: the HPA controller did not scale the workload to zero" {
		t.Error(got)
	}
}

// zeroing is an autoscaler whose next evaluation scales to zero.
func zeroing(t *testing.T) *harness {
	t.Helper()
	gate := testConfig
	gate.scaleToZero = true
	gate.downscaleStabilization = 0
	h := newHarness(t, gate, withPods(1, newHPA(withMetrics(external("queue", "5", "")), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		hpa.Spec.MinReplicas = ptr.To[int32](0)
	}))...)
	h.scale.Spec.Replicas, h.scale.Status.Replicas = 1, 1
	h.series("0")
	h.c.histories.of(webKey, "u1").seed(0, epoch.Add(-time.Hour), before(epoch))
	return h
}

// That the workload was scaled to zero is lost if the status with the condition is: nobody would wake it. Pins HPA-69.
func TestTheScaleToZeroIsRemembered(t *testing.T) {
	const zeroed = "True ScaledToZero: the HPA controller scaled the workload to zero"
	for name, tc := range map[string]struct {
		refused   int // writes of the status
		unanswers bool
		stored    string // the condition after the evaluation, and after the next
		later     string
	}{
		"HPA-69: one conflict":       {refused: 1, stored: zeroed, later: zeroed},
		"HPA-69: conflicts":          {refused: 2, stored: "none", later: zeroed},
		"HPA-69: scale not answered": {unanswers: true, stored: "none", later: zeroed},
	} {
		t.Run(name, func(t *testing.T) {
			h := zeroing(t)
			h.RefuseIf("update horizontalpodautoscalers/status web", conflict(), func(n int) bool { return n <= tc.refused })
			unanswered := false
			h.scaleErr = func(verb string) error {
				if verb == "update" && tc.unanswers {
					h.scale.Spec.Replicas, unanswered = 0, true
				}
				if unanswered {
					return errors.New("connection lost")
				}
				return nil
			}
			hpa, _ := h.evaluate(t)
			if got := condition(hpa, autoscalingv2.ScaledToZero); h.scale.Spec.Replicas != 0 || got != tc.stored {
				t.Errorf("replicas %d, %s", h.scale.Spec.Replicas, got)
			}
			unanswered, h.scaleErr = false, nil
			h.Clock.Step(time.Second)
			hpa, err := h.evaluate(t)
			if got := condition(hpa, autoscalingv2.ScaledToZero); err != nil || got != tc.later {
				t.Errorf("later: %v, %s", err, got)
			}
		})
	}
}

// Pins HPA-69.
func TestTheScaleToZeroIsForgottenWithReplicas(t *testing.T) {
	h := zeroing(t)
	h.c.histories.of(webKey, "u1").stopped = byAutoscaler
	h.series("5")
	if _, err := h.evaluate(t); err != nil || h.c.histories.of(webKey, "u1").stopped == byAutoscaler {
		t.Errorf("%v, or it is remembered", err)
	}
}

// What somebody else stops stays stopped, although a status that says that the autoscaler did not is lost.
func TestAnotherStopIsRespected(t *testing.T) {
	lost := apierrors.NewInternalError(errors.New("lost"))
	for name, tc := range map[string]struct {
		wrote []int32 // by the first evaluation
		first func(t *testing.T, h *harness)
	}{
		"HPA-76: scaled up again by the autoscaler": {[]int32{2}, func(_ *testing.T, h *harness) { h.series("9") }},
		"HPA-76: scaled up again by somebody else":  {nil, func(_ *testing.T, h *harness) { h.scale.Spec.Replicas = 2 }},
		"HPA-76: another target": {nil, func(t *testing.T, h *harness) {
			must.Get(h.evaluate(t))(t)
			h.retarget(t, func(ref *autoscalingv2.CrossVersionObjectReference) { ref.Name = "another" })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			gate := testConfig
			gate.scaleToZero = true
			h := newHarness(t, gate, withPods(1, newHPA(withMetrics(external("queue", "5", "")), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
				hpa.Spec.MinReplicas = ptr.To[int32](0)
				hpa.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
					Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionTrue,
				}}
			}))...)
			h.scale.Spec.Replicas, h.scale.Status.Replicas = 0, 0
			h.series("0")
			tc.first(t, h)
			h.RefuseIf("update horizontalpodautoscalers/status web", lost, func(n int) bool { return n == 1 })
			if _, err := h.evaluate(t); err == nil || !slices.Equal(h.written, tc.wrote) {
				t.Fatalf("%v, wrote %v", err, h.written)
			}
			h.scale.Status.Replicas = h.scale.Spec.Replicas
			h.series("10")
			h.Clock.Step(gate.syncPeriod)
			h.sync(t, must.Get(h.evaluate(t))(t))
			h.scale.Spec.Replicas, h.scale.Status.Replicas = 0, 0
			h.Clock.Step(gate.syncPeriod)
			hpa, err := h.evaluate(t)
			if got := condition(hpa, autoscalingv2.ScaledToZero); err != nil || !slices.Equal(h.written, tc.wrote) || strings.HasPrefix(got, "True") {
				t.Errorf("%v, wrote %v, %s", err, h.written, got)
			}
		})
	}
}
