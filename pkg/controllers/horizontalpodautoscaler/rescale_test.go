package horizontalpodautoscaler

import (
	"errors"
	"slices"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New("changed"))
}

// Pins HPA-24.
func TestRescaleIsRepeatedOnConflict(t *testing.T) {
	h := newHarness(t, testConfig, newHPA())
	h.scale.Spec.Replicas = 12
	left := 3
	h.scaleErr = func(verb string) error {
		if verb == "update" && left > 0 {
			left--
			return conflict()
		}
		return nil
	}
	if _, err := h.evaluate(t); err != nil || !slices.Equal(h.written, []int32{10}) || left != 0 {
		t.Errorf("%v, wrote %v", err, h.written)
	}
}

// Pins HPA-24 and HPA-46.
func TestRescaleFails(t *testing.T) {
	for _, refusal := range []error{errors.New("refused"), conflict()} {
		h := newHarness(t, testConfig, newHPA(func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Status.DesiredReplicas = 7 }))
		h.scale.Spec.Replicas = 12
		puts := 0
		h.scaleErr = func(verb string) error {
			if verb == "update" {
				puts++
				return refusal
			}
			return nil
		}
		hpa, err := h.evaluate(t)
		if err == nil || hpa.Status.DesiredReplicas != 7 || hpa.Status.CurrentReplicas != 12 || hpa.Status.LastScaleTime != nil {
			t.Errorf("%v, status %+v", err, hpa.Status)
		}
		if want := map[bool]int{true: 5, false: 1}[apierrors.IsConflict(refusal)]; puts != want {
			t.Errorf("%d attempts, want %d", puts, want)
		}
		if got := condition(hpa, autoscalingv2.AbleToScale); got != "False FailedUpdateScale: the HPA controller was unable to update the target scale: "+refusal.Error() {
			t.Error(got)
		}
		want := "Warning FailedRescale New size: 10; reason: Current number of replicas above Spec.MaxReplicas; error: " + refusal.Error()
		h.WantEvents(t, want)
	}
}

// A write of the scale may have been executed although its answer is an error. Pins HPA-68.
func TestRescaleWithoutAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		err      error
		executed bool
		works    bool
	}{
		"HPA-68: executed":       {errors.New("connection lost"), true, true},
		"HPA-68: not executed":   {errors.New("connection lost"), false, false},
		"HPA-68: refused anyway": {apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", errors.New("no")), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, testConfig, newHPA(func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
				hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{}
			}))
			h.scale.Spec.Replicas = 12
			h.scaleErr = func(verb string) error {
				if verb != "update" {
					return nil
				}
				if tc.executed {
					h.scale.Spec.Replicas = 10
				}
				return tc.err
			}
			hpa, err := h.evaluate(t)
			if (err == nil) != tc.works || (hpa.Status.LastScaleTime != nil) != tc.works {
				t.Errorf("%v, status %+v", err, hpa.Status)
			}
			if got := len(h.c.histories.of(webKey, "u1").removed) == 1; got != tc.works {
				t.Errorf("kept as a scale event: %v", got)
			}
		})
	}
}

// Nothing can be read after a write without an answer. If it was executed, its replicas count for the policies.
func TestARescaleOfUnknownOutcomeIsLimitedTogetherWithTheNext(t *testing.T) {
	for name, tc := range map[string]struct {
		err      error
		executed int32 // the replicas of the scale afterwards
		wrote    []int32
	}{
		"HPA-82: executed":                {errors.New("connection lost"), 5, nil},
		"HPA-82: not executed":            {errors.New("connection lost"), 3, []int32{5}},
		"HPA-82: refused, and scaled so":  {apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", errors.New("no")), 5, []int32{7}},
		"HPA-82: another size than wrote": {errors.New("connection lost"), 4, []int32{6}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, testConfig, withPods(1, newHPA(withMetrics(external("queue", "5", "")), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
				hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{
					Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 2, PeriodSeconds: 60}},
				}}
			}))...)
			h.series("50")
			isDown := false
			h.scaleErr = func(verb string) error {
				if verb == "update" {
					isDown, h.scale.Spec.Replicas = true, tc.executed
				}
				if isDown {
					return tc.err
				}
				return nil
			}
			if _, err := h.evaluate(t); err == nil {
				t.Fatal("it is not said to have failed")
			}
			h.scaleErr, h.scale.Status.Replicas = nil, tc.executed
			h.Clock.Step(testConfig.syncPeriod)
			if _, err := h.evaluate(t); err != nil || !slices.Equal(h.written, tc.wrote) {
				t.Errorf("%v, wrote %v, want %v", err, h.written, tc.wrote)
			}
		})
	}
}
