package horizontalpodautoscaler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
)

// Pins HPA-44.
func TestScaleEventsAreKeptWithBehaviorOnly(t *testing.T) {
	for _, b := range []*autoscalingv2.HorizontalPodAutoscalerBehavior{nil, {}} {
		h := newHarness(t, testConfig, newHPA(func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.Behavior = b }))
		h.scale.Spec.Replicas = 12
		if _, err := h.evaluate(t); err != nil {
			t.Fatal(err)
		}
		if got := len(h.c.histories.of(webKey, "u1").removed); got != map[bool]int{true: 1}[b != nil] {
			t.Errorf("behavior %v: %d events", b, got)
		}
	}
}

// Pins HPA-25.
func TestStatusIsWrittenOnlyIfItChanged(t *testing.T) {
	h := newHarness(t, testConfig, withPods(3, newHPA())...)
	h.usage = map[string]string{"p0": "500m", "p1": "500m", "p2": "500m"}
	hpa, err := h.evaluate(t)
	if err != nil {
		t.Fatal(err)
	}
	h.sync(t, hpa)
	h.Fake.ClearActions()
	h.Clock.Step(15 * time.Second)
	if _, err := h.evaluate(t); err != nil {
		t.Fatal(err)
	}
	for _, a := range h.Fake.Actions() {
		if a.GetVerb() == "update" {
			t.Errorf("wrote %v", a)
		}
	}
}

// Pins HPA-25.
func TestStatusCannotBeWritten(t *testing.T) {
	h := newHarness(t, testConfig, withPods(3, newHPA())...)
	h.usage = map[string]string{"p0": "500m", "p1": "500m", "p2": "500m"}
	h.Refuse("update horizontalpodautoscalers/status", errors.New("refused"))
	if _, err := h.evaluate(t); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	h.WantEvents(t, "Warning FailedUpdateStatus refused")
}

// TestOrderOfEventAndStatus pins R1: the event of a failure comes before the status that
// shows it, except for that of metrics.
// Pins HPA-19.
func TestOrderOfEventAndStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		verb   string // of the scale request that fails
		before string // events before the status is written
	}{
		"the scale cannot be read":      {"get", "Warning FailedGetScale refused"},
		"the scale cannot be written":   {"update", "Warning FailedRescale New size: 10; reason: Current number of replicas above Spec.MaxReplicas; error: refused"},
		"the size cannot be determined": {"", "Warning FailedGetResourceMetric failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API"},
	} {
		h := newHarness(t, testConfig, withPods(1, newHPA())...)
		if tc.verb != "" {
			h.scale.Spec.Replicas = 12
		}
		h.scaleErr = func(verb string) error {
			if verb == tc.verb {
				return errors.New("refused")
			}
			return nil
		}
		written := false
		h.Intercept("update horizontalpodautoscalers/status", func(clienttesting.Action) error {
			written = true
			if got := h.RecordedEvents(); !slices.Equal(got, []string{tc.before}) {
				t.Errorf("%s: events before the write: %q", name, got)
			}
			return nil
		})
		if _, err := h.evaluate(t); err == nil || !written {
			t.Errorf("%s: %v, written: %v", name, err, written)
		}
	}
}

// A request that is cut off because the instance ends says nothing about the autoscaler.
func TestACutOffRequestReportsNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		scale  string // the request for the scale that is cut off
		status bool   // whether it is that for the status
	}{
		"HPA-79: reading the scale":  {scale: "get"},
		"HPA-79: writing the scale":  {scale: "update"},
		"HPA-79: reading a metric":   {},
		"HPA-79: writing the status": {status: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, testConfig, withPods(3, newHPA())...)
			h.usage = map[string]string{"p0": "500m", "p1": "500m", "p2": "500m"}
			if tc.scale == "update" {
				h.scale.Spec.Replicas = 12
			}
			fenced := make(chan struct{})
			h.c.Fenced = fenced
			end := sync.OnceFunc(func() { close(fenced) })
			h.scaleErr = func(verb string) error {
				if verb != tc.scale {
					return nil
				}
				end()
				return context.Canceled
			}
			h.Intercept("update horizontalpodautoscalers/status", func(clienttesting.Action) error {
				end()
				return context.Canceled
			})
			if tc.scale == "" && !tc.status {
				end()
				h.fail["resource"] = context.Canceled
			}
			if _, err := h.evaluate(t); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			h.WantEvents(t)
		})
	}
}

// Pins HPA-26.
func TestTransitionTimeIsThatOfTheStatus(t *testing.T) {
	old := metav1.NewTime(epoch.Add(-time.Hour))
	h := newHarness(t, testConfig, newHPA(func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		hpa.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{
			{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionTrue, LastTransitionTime: old},
			{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue, Reason: "Old", LastTransitionTime: old},
		}
	}))
	h.scale.Spec.Replicas = 0
	hpa, err := h.evaluate(t)
	if err != nil {
		t.Fatal(err)
	}
	c := hpa.Status.Conditions
	if c[0].Type != autoscalingv2.ScalingActive || !c[0].LastTransitionTime.Time.Equal(epoch) {
		t.Errorf("changed: %+v", c[0])
	}
	if c[1].Reason != "SucceededGetScale" || !c[1].LastTransitionTime.Time.Equal(old.Time) {
		t.Errorf("unchanged: %+v", c[1])
	}
}
