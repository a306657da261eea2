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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

type edit = func(*autoscalingv2.HorizontalPodAutoscaler)

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

// sync waits until the cache shows the autoscaler.
func (h *harness) sync(t testing.TB, want *autoscalingv2.HorizontalPodAutoscaler) {
	t.Helper()
	controllertest.Eventually(t, "the cache follows", func() bool {
		got, err := h.c.autoscalers.HorizontalPodAutoscalers("ns").Get("web")
		return err == nil && len(got.Status.Conditions) == len(want.Status.Conditions) && got.Status.DesiredReplicas == want.Status.DesiredReplicas
	})
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
