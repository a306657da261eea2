package horizontalpodautoscaler

import (
	"math"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"
)

func podsPolicy(value int32, seconds int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: value, PeriodSeconds: seconds}
}

func percentPolicy(value int32, seconds int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: value, PeriodSeconds: seconds}
}

func rules(selected autoscalingv2.ScalingPolicySelect, policies ...autoscalingv2.HPAScalingPolicy) direction {
	return direction{selected: selected, policies: policies}
}

const (
	largest  = autoscalingv2.MaxChangePolicySelect
	smallest = autoscalingv2.MinChangePolicySelect
	disabled = autoscalingv2.DisabledPolicySelect
)

// asDefaulted are the rules that the API server fills in.
func asDefaulted() behavior {
	return behavior{
		up:   rules(largest, podsPolicy(4, 15), percentPolicy(100, 15)),
		down: rules(largest, percentPolicy(100, 15)),
	}
}

// Pins HPA-42.
func TestTemperByBehaviorStabilizes(t *testing.T) {
	b := asDefaulted()
	b.up.window, b.down.window = time.Minute, 5*time.Minute
	for name, tc := range map[string]struct {
		proposal, current int32
		past              []recommendation
		want              string
	}{
		"up only as far as all agree":    {9, 5, []recommendation{ago(6, 30*time.Second)}, "6 ScaleUpStabilized False:DesiredWithinRange"},
		"exactly a window ago is past":   {9, 5, []recommendation{ago(6, time.Minute)}, "9 ReadyForNewScale False:DesiredWithinRange"},
		"not up while one wanted less":   {9, 5, []recommendation{ago(3, 30*time.Second)}, "5 ScaleUpStabilized False:DesiredWithinRange"},
		"down only as far as all agree":  {1, 5, []recommendation{ago(4, 4*time.Minute)}, "4 ScaleDownStabilized False:DesiredWithinRange"},
		"not down while one wanted more": {1, 5, []recommendation{ago(9, 4*time.Minute)}, "5 ScaleDownStabilized False:DesiredWithinRange"},
		"down without a past":            {1, 5, nil, "1 ReadyForNewScale False:DesiredWithinRange"},
		"no change wanted, free":         {5, 5, []recommendation{ago(3, time.Hour)}, "5 ReadyForNewScale False:DesiredWithinRange"},
	} {
		past := &history{recommendations: tc.past}
		got := temperByBehavior(tempering{tc.proposal, tc.current, 1, 20, epoch}, past, b)
		if got.tell() != tc.want {
			t.Errorf("%s: got %s", name, got.tell())
		}
		if !contains(past.recommendations, tc.proposal) {
			t.Errorf("%s: the raw proposal was not recorded", name)
		}
	}
}

// Pins HPA-42.
func TestRecommendationsAreKeptForTheLongerWindow(t *testing.T) {
	b := asDefaulted()
	b.up.window, b.down.window = time.Minute, 5*time.Minute
	past := &history{recommendations: []recommendation{ago(5, 2*time.Minute), ago(4, 6*time.Minute)}}
	temperByBehavior(tempering{5, 5, 1, 20, epoch}, past, b)
	if len(past.recommendations) != 2 || past.recommendations[1] != ago(5, 0) {
		t.Errorf("got %v", past.recommendations)
	}
}

// Pins HPA-43.
func TestTemperByBehaviorLimitsTheRate(t *testing.T) {
	event := func(replicas int32, before time.Duration) []scaleEvent {
		return []scaleEvent{{replicas, epoch.Add(-before)}}
	}
	const ready = " ReadyForNewScale "
	for name, tc := range map[string]struct {
		proposal, current, min, max int32
		b                           behavior
		past                        history
		want                        string
	}{
		"up by pods":                        {99, 3, 1, 100, asDefaulted(), history{}, "7" + ready + "True:ScaleUpLimit"},
		"up by percent":                     {99, 10, 1, 100, asDefaulted(), history{}, "20" + ready + "True:ScaleUpLimit"},
		"up by the smallest":                {99, 10, 1, 100, behavior{up: rules(smallest, podsPolicy(4, 15), percentPolicy(100, 15))}, history{}, "14" + ready + "True:ScaleUpLimit"},
		"HPA-81: up percent is exact":       {999, 50, 1, 1000, behavior{up: rules(largest, percentPolicy(10, 15))}, history{}, "55" + ready + "True:ScaleUpLimit"},
		"HPA-81: down percent is exact":     {1, 100, 1, 100, behavior{down: rules(largest, percentPolicy(90, 15))}, history{}, "10" + ready + "True:ScaleDownLimit"},
		"up percent is rounded up":          {99, 3, 1, 100, behavior{up: rules(largest, percentPolicy(10, 15))}, history{}, "4" + ready + "True:ScaleUpLimit"},
		"up disabled":                       {99, 3, 1, 100, behavior{up: rules(disabled, podsPolicy(4, 15))}, history{}, "3" + ready + "True:ScaleUpLimit"},
		"up to the maximum":                 {99, 10, 1, 15, asDefaulted(), history{}, "15" + ready + "True:TooManyReplicas"},
		"maximum and rate alike":            {99, 10, 1, 20, asDefaulted(), history{}, "20" + ready + "True:TooManyReplicas"},
		"what was added counts":             {99, 10, 1, 100, behavior{up: rules(largest, podsPolicy(4, 60))}, history{added: event(3, 30*time.Second)}, "11" + ready + "True:ScaleUpLimit"},
		"what was removed counts, too":      {99, 10, 1, 100, behavior{up: rules(largest, podsPolicy(4, 60))}, history{removed: event(3, 30*time.Second)}, "17" + ready + "True:ScaleUpLimit"},
		"never below the present":           {99, 10, 1, 100, behavior{up: rules(largest, podsPolicy(4, 60))}, history{added: event(9, 30*time.Second)}, "10" + ready + "True:ScaleUpLimit"},
		"outside the period it is free":     {99, 10, 1, 100, behavior{up: rules(largest, podsPolicy(4, 60))}, history{added: event(3, 60*time.Second)}, "14" + ready + "True:ScaleUpLimit"},
		"HPA-49: an increase is not raised": {3, 2, 5, 100, asDefaulted(), history{}, "3" + ready + "False:DesiredWithinRange"},
		"down by pods":                      {1, 10, 1, 100, behavior{down: rules(largest, podsPolicy(4, 15), percentPolicy(10, 15))}, history{}, "6" + ready + "True:ScaleDownLimit"},
		"down by the smallest":              {1, 10, 1, 100, behavior{down: rules(smallest, podsPolicy(4, 15), percentPolicy(10, 15))}, history{}, "9" + ready + "True:ScaleDownLimit"},
		"down percent is truncated":         {1, 7, 1, 100, behavior{down: rules(largest, percentPolicy(50, 15))}, history{}, "3" + ready + "True:ScaleDownLimit"},
		"down disabled":                     {1, 10, 1, 100, behavior{down: rules(disabled, podsPolicy(4, 15))}, history{}, "10" + ready + "True:ScaleDownLimit"},
		"down to the minimum":               {1, 10, 3, 100, asDefaulted(), history{}, "3" + ready + "True:TooFewReplicas"},
		"removals of the period count":      {1, 10, 1, 100, behavior{down: rules(largest, podsPolicy(4, 60))}, history{removed: event(3, 30*time.Second)}, "9" + ready + "True:ScaleDownLimit"},
		"never above the present":           {1, 10, 1, 100, behavior{down: rules(largest, podsPolicy(4, 60))}, history{removed: event(9, 30*time.Second)}, "10" + ready + "True:ScaleDownLimit"},
		"no overflow":                       {math.MaxInt32, 10, 1, math.MaxInt32, behavior{up: rules(largest, podsPolicy(math.MaxInt32, 15))}, history{}, "max" + ready + "False:DesiredWithinRange"},
	} {
		got := temperByBehavior(tempering{tc.proposal, tc.current, tc.min, tc.max, epoch}, &tc.past, tc.b)
		if got.tell() != tc.want {
			t.Errorf("%s: got %s", name, got.tell())
		}
	}
}

// Pins HPA-42 and HPA-43.
func TestBehaviorWordings(t *testing.T) {
	b := asDefaulted()
	b.up.window = time.Minute
	up := temperByBehavior(tempering{9, 5, 1, 20, epoch}, &history{recommendations: []recommendation{ago(6, 1)}}, b)
	down := temperByBehavior(tempering{1, 5, 1, 20, epoch}, &history{}, behavior{down: rules(largest, podsPolicy(1, 60))})
	for got, want := range map[string]string{
		up.able.message:      "recent recommendations were lower than current one, applying the lowest recent recommendation",
		down.limited.message: "the desired replica count is decreasing faster than the maximum scale rate",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Pins HPA-41.
func TestResolveBehavior(t *testing.T) {
	given := &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp: &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: ptr.To[int32](7),
			SelectPolicy:               ptr.To(smallest),
			Policies:                   []autoscalingv2.HPAScalingPolicy{podsPolicy(1, 30), podsPolicy(1, 90), podsPolicy(1, 60)},
		},
		ScaleDown: &autoscalingv2.HPAScalingRules{},
	}
	before := given.DeepCopy()
	b := resolveBehavior(given, 90*time.Second+time.Millisecond)
	if b.up.window != 7*time.Second || b.up.selected != smallest || b.up.longestPeriod() != 90*time.Second {
		t.Errorf("up %+v", b.up)
	}
	if b.down.window != 90*time.Second || b.down.selected != largest || b.down.longestPeriod() != 0 {
		t.Errorf("down %+v", b.down)
	}
	if given.ScaleDown.StabilizationWindowSeconds != before.ScaleDown.StabilizationWindowSeconds {
		t.Error("the autoscaler was changed")
	}
}
