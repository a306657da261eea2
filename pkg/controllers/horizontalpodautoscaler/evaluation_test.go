package horizontalpodautoscaler

import (
	"errors"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Pins HPA-21, HPA-24, HPA-25, HPA-29 and HPA-22d.
func TestScaleUp(t *testing.T) {
	h := newHarness(t, testConfig, withPods(3, newHPA(func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		hpa.Status.ObservedGeneration = ptr.To[int64](4)
	}))...)
	h.usage = map[string]string{"p0": "1", "p1": "1", "p2": "1"}
	hpa, err := h.evaluate(t)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.written, []int32{6}) {
		t.Errorf("wrote %v", h.written)
	}
	s := hpa.Status
	if s.CurrentReplicas != 3 || s.DesiredReplicas != 6 || !s.LastScaleTime.Time.Equal(epoch) || s.ObservedGeneration != nil {
		t.Errorf("status %+v", s)
	}
	if m := s.CurrentMetrics; len(m) != 1 || m[0].Type != "Resource" || *m[0].Resource.Current.AverageUtilization != 100 || m[0].Resource.Current.AverageValue.String() != "1" {
		t.Errorf("metrics %+v", m)
	}
	for kind, want := range map[autoscalingv2.HorizontalPodAutoscalerConditionType]string{
		autoscalingv2.AbleToScale:    "True SucceededRescale: the HPA controller was able to update the target scale to 6",
		autoscalingv2.ScalingActive:  "True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
		autoscalingv2.ScalingLimited: "False DesiredWithinRange: the desired count is within the acceptable range",
	} {
		if got := condition(hpa, kind); got != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
	order := []autoscalingv2.HorizontalPodAutoscalerConditionType{}
	for _, c := range s.Conditions {
		order = append(order, c.Type)
	}
	if !slices.Equal(order, []autoscalingv2.HorizontalPodAutoscalerConditionType{"AbleToScale", "ScalingActive", "ScalingLimited"}) {
		t.Errorf("order %v", order)
	}
	h.WantEvents(t, "Normal SuccessfulRescale New size: 6; reason: cpu resource utilization (percentage of request) above target")
}

// Pins HPA-22e.
func TestWithoutMetrics(t *testing.T) {
	zeroed := func(status corev1.ConditionStatus) edit {
		return func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			hpa.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScaledToZero, Status: status}}
		}
	}
	minOf := func(n int32) edit {
		return func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.MinReplicas = &n }
	}
	gate := testConfig
	gate.scaleToZero = true
	const disabled = "False ScalingDisabled: scaling is disabled since the replica count of the target is zero"
	for name, tc := range map[string]struct {
		config  config
		current int32
		edits   []edit
		wrote   []int32
		event   string
		active  string
		zero    bool // whether ScaledToZero is still there
	}{
		"HPA-22b: above the maximum":        {testConfig, 11, nil, []int32{10}, "Normal SuccessfulRescale New size: 10; reason: Current number of replicas above Spec.MaxReplicas", "none", false},
		"HPA-22c: below the minimum":        {testConfig, 1, []edit{minOf(2)}, []int32{2}, "Normal SuccessfulRescale New size: 2; reason: Current number of replicas below Spec.MinReplicas", "none", false},
		"HPA-22a: at zero":                  {testConfig, 0, []edit{zeroed("True")}, nil, "", disabled, false},
		"HPA-22a, HPA-50: at zero, by hand": {gate, 0, []edit{zeroed("False")}, nil, "", disabled, true},
		"HPA-22a: at zero, nothing says":    {gate, 0, nil, nil, "", disabled, false},
		"HPA-22a: at zero, cannot wake":     {gate, 0, []edit{zeroed("True"), minOf(0)}, nil, "", disabled, true},
	} {
		h := newHarness(t, tc.config, newHPA(tc.edits...))
		h.scale.Spec.Replicas = tc.current
		hpa, err := h.evaluate(t)
		if err != nil || !slices.Equal(h.written, tc.wrote) || condition(hpa, autoscalingv2.ScalingActive) != tc.active {
			t.Errorf("%s: %v, wrote %v, %s", name, err, h.written, condition(hpa, autoscalingv2.ScalingActive))
		}
		if got := strings.Join(h.RecordedEvents(), ""); got != tc.event {
			t.Errorf("%s: events %q", name, got)
		}
		if got := condition(hpa, autoscalingv2.ScaledToZero) != "none"; got != tc.zero && tc.wrote == nil {
			t.Errorf("%s: ScaledToZero %s", name, condition(hpa, autoscalingv2.ScaledToZero))
		}
		if len(h.requests) != 0 {
			t.Errorf("%s: metrics were read", name)
		}
	}
}

// Pins HPA-23.
func TestWakingReachesTheMinimum(t *testing.T) {
	gate := testConfig
	gate.scaleToZero = true
	for queue, event := range map[string]string{
		"5": "Normal SuccessfulRescale New size: 3; reason: external metric queue(nil) above target",
		"0": "Normal SuccessfulRescale New size: 3; reason: Current number of replicas below Spec.MinReplicas",
	} {
		h := newHarness(t, gate, newHPA(withMetrics(external("queue", "5", "")), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			hpa.Spec.MinReplicas = ptr.To[int32](3)
			hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{
				Policies: []autoscalingv2.HPAScalingPolicy{podsPolicy(4, 15)},
			}}
			hpa.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionTrue}}
		}))
		h.scale.Spec.Replicas, h.scale.Status.Replicas = 0, 0
		h.series(queue)
		if _, err := h.evaluate(t); err != nil || !slices.Equal(h.written, []int32{3}) {
			t.Errorf("%v, wrote %v", err, h.written)
		}
		h.WantEvents(t, event)
	}
}

// Pins HPA-23 and HPA-44.
func TestScaleDown(t *testing.T) {
	h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(external("queue", "5", "")), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: ptr.To[int32](0), Policies: []autoscalingv2.HPAScalingPolicy{percentPolicy(100, 15)},
		}}
	}))...)
	h.series("4")
	if _, err := h.evaluate(t); err != nil || !slices.Equal(h.written, []int32{1}) {
		t.Errorf("%v, wrote %v", err, h.written)
	}
	h.WantEvents(t, "Normal SuccessfulRescale New size: 1; reason: All metrics below target")
	if got := h.c.histories.of(webKey, "u1"); len(got.removed) != 1 || got.removed[0].replicas != 2 || len(got.added) != 0 {
		t.Errorf("remembered %+v", got)
	}
}

// Pins HPA-20.
func TestTargetCannotBeRead(t *testing.T) {
	target := func(apiVersion, kind string) edit {
		return func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			hpa.Spec.ScaleTargetRef.APIVersion, hpa.Spec.ScaleTargetRef.Kind = apiVersion, kind
		}
	}
	for name, tc := range map[string]struct {
		edit edit
		err  error
		text string
		spec bool
	}{
		"version": {target("a/b/c", "Deployment"), nil, "unexpected GroupVersion string: a/b/c", true},
		"kind":    {target("apps/v1", "Gadget"), nil, `no matches for apps/, Resource=Gadget`, false},
		"scale":   {target("apps/v7", "Deployment"), errors.New("no such thing"), "no such thing", false},
	} {
		h := newHarness(t, testConfig, newHPA(tc.edit))
		h.scaleErr = func(string) error { return tc.err }
		hpa, err := h.evaluate(t)
		if err == nil || errors.Is(err, errSpec) != tc.spec {
			t.Errorf("%s: %v", name, err)
		}
		if got := condition(hpa, autoscalingv2.AbleToScale); got != "False FailedGetScale: the HPA controller was unable to get the target's current scale: "+tc.text {
			t.Errorf("%s: %s", name, got)
		}
		if got := h.RecordedEvents(); !slices.Equal(got, []string{"Warning FailedGetScale " + tc.text}) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Pins HPA-23 and HPA-27.
func TestSelectorsThatCannotBeUsed(t *testing.T) {
	for name, tc := range map[string]struct {
		selector string
		others   map[string]string
		active   string
		event    string
	}{
		"empty":    {"", nil, "False InvalidSelector: the HPA target's scale is missing a selector", "Warning SelectorRequired selector is required"},
		"unusable": {"a in", nil, "False InvalidSelector: couldn't convert selector into a corresponding internal selector object: ", "Warning InvalidSelector couldn't convert"},
		"ambiguous": {"app=web", map[string]string{"other": "app in (web,api)", "third": "app=api"},
			"False AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [ns/other ns/web]", "Warning AmbiguousSelector pods by selector app=web"},
		"ambiguous, printed as it is": {"tier notin (x), app==web", map[string]string{"other": "app=web"},
			"False AmbiguousSelector: pods by selector tier notin (x), app==web are controlled by multiple HPAs: [ns/other ns/web]", "Warning AmbiguousSelector pods by selector tier notin (x), app==web"},
	} {
		h := newHarness(t, testConfig, withPods(1, newHPA())...)
		h.scale.Status.Selector = tc.selector
		h.c.selectors.register(webKey, "u1")
		for other, selector := range tc.others {
			h.registered(t, other, selector)
		}
		hpa, err := h.evaluate(t)
		if err == nil || !strings.HasPrefix(condition(hpa, autoscalingv2.ScalingActive), tc.active) {
			t.Errorf("%s: %v, %s", name, err, condition(hpa, autoscalingv2.ScalingActive))
		}
		events := h.RecordedEvents()
		if len(events) != 2 || !strings.HasPrefix(events[0], tc.event) || !strings.HasPrefix(events[1], "Warning FailedComputeMetricsReplicas ") {
			t.Errorf("%s: events %q", name, events)
		}
		if hpa.Status.CurrentReplicas != 3 || hpa.Status.CurrentMetrics != nil || h.written != nil {
			t.Errorf("%s: status %+v", name, hpa.Status)
		}
	}
}
