package horizontalpodautoscaler

import (
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// direction holds the rules of spec.behavior for one direction, resolved.
type direction struct {
	window   time.Duration // in which recommendations limit a change
	selected autoscalingv2.ScalingPolicySelect
	policies []autoscalingv2.HPAScalingPolicy
}

// behavior is spec.behavior, resolved.
type behavior struct{ up, down direction }

// resolveBehavior resolves spec.behavior. The window of scale down defaults to that of the
// configuration, that of scale up to zero.
func resolveBehavior(b *autoscalingv2.HorizontalPodAutoscalerBehavior, downscaleWindow time.Duration) behavior {
	// Whole seconds, as the field of the API.
	return behavior{
		up:   resolveDirection(b.ScaleUp, 0),
		down: resolveDirection(b.ScaleDown, downscaleWindow.Truncate(time.Second)),
	}
}

func resolveDirection(rules *autoscalingv2.HPAScalingRules, window time.Duration) direction {
	d := direction{window: window, selected: autoscalingv2.MaxChangePolicySelect}
	if rules == nil {
		return d
	}
	d.policies = rules.Policies
	if rules.StabilizationWindowSeconds != nil {
		d.window = time.Duration(*rules.StabilizationWindowSeconds) * time.Second
	}
	if rules.SelectPolicy != nil {
		d.selected = *rules.SelectPolicy
	}
	return d
}

// longestPeriod returns how long the events of a direction are relevant.
func (d direction) longestPeriod() (longest time.Duration) {
	for _, p := range d.policies {
		longest = max(longest, period(p))
	}
	return longest
}

func period(p autoscalingv2.HPAScalingPolicy) time.Duration {
	return time.Duration(p.PeriodSeconds) * time.Second
}

// temperByBehavior decides for an autoscaler with spec.behavior: a change is limited to what
// all recommendations in the window of its direction agree on, and to the rate that the
// policies of the direction allow. It records the proposal.
func temperByBehavior(in tempering, past *history, b behavior) tempered {
	stabilized := stabilize(in, past, b)
	out := tempered{able: readyForNewScale()}
	switch {
	case stabilized == in.proposal:
	case in.proposal >= in.current:
		out.able = scaleUpStabilized()
	default:
		out.able = scaleDownStabilized()
	}
	out.replicas, out.limited = limitRate(in, stabilized, past, b)
	return out
}

// windows returns when the windows of the directions begin.
func (b behavior) windows(now time.Time) (up, down time.Time) {
	return now.Add(-b.up.window), now.Add(-b.down.window)
}

// obsolete says of recommendations that they count in no direction.
func (b behavior) obsolete(now time.Time) func(at time.Time) bool {
	up, down := b.windows(now)
	return func(at time.Time) bool { return at.Before(up) && at.Before(down) }
}

func stabilize(in tempering, past *history, b behavior) int32 {
	sinceUp, sinceDown := b.windows(in.now)
	lowest, highest := in.proposal, in.proposal
	for _, r := range past.recommendations {
		if r.at.After(sinceUp) {
			lowest = min(lowest, r.replicas)
		}
		if r.at.After(sinceDown) {
			highest = max(highest, r.replicas)
		}
	}
	past.record(in.proposal, in.now, b.obsolete(in.now))
	return min(max(in.current, lowest), highest)
}

// limitRate keeps a change within the bounds of the autoscaler and the rate of its direction. A
// scale up is not raised to the minimum: a smaller size is corrected without metrics.
func limitRate(in tempering, stabilized int32, past *history, b behavior) (int32, finding) {
	replicas, reason, message := stabilized, "DesiredWithinRange", inRange
	switch {
	case stabilized > in.current:
		rate := max(highestAllowed(in, past, b.up), in.current)
		highest := min(in.max, rate)
		if stabilized > highest {
			replicas, reason, message = highest, "TooManyReplicas", tooMany
			if in.max > rate {
				reason, message = "ScaleUpLimit", atScaleUpLimit
			}
		}
	case stabilized < in.current:
		rate := min(lowestAllowed(in, past, b.down), in.current)
		lowest := max(in.min, rate)
		if stabilized < lowest {
			replicas, reason, message = lowest, "TooFewReplicas", tooFew
			if in.min < rate {
				reason, message = "ScaleDownLimit", atScaleDownLimit
			}
		}
	}
	return replicas, limit(stabilized, replicas, reason, message)
}

// highestAllowed returns the largest size that the policies allow.
func highestAllowed(in tempering, past *history, d direction) int32 {
	return allowed(in, past, d, slices.Min, slices.Max, func(start int64, p autoscalingv2.HPAScalingPolicy) int64 {
		if p.Type == autoscalingv2.PodsScalingPolicy {
			return start + int64(p.Value)
		}
		percent := start * (100 + int64(p.Value))
		if percent%100 > 0 { // rounded up
			return percent/100 + 1
		}
		return percent / 100
	})
}

// lowestAllowed returns the smallest size that the policies allow.
func lowestAllowed(in tempering, past *history, d direction) int32 {
	return allowed(in, past, d, slices.Max, slices.Min, func(start int64, p autoscalingv2.HPAScalingPolicy) int64 {
		if p.Type == autoscalingv2.PodsScalingPolicy {
			return start - int64(p.Value)
		}
		return start * (100 - int64(p.Value)) / 100
	})
}

// allowed selects among the sizes that the policies allow. Each is computed from the size at
// the start of the policy's period, which is derived from the changes this controller made
// since. Without a policy there is no change.
func allowed(
	in tempering, past *history, d direction, least, most func([]int32) int32,
	apply func(start int64, p autoscalingv2.HPAScalingPolicy) int64,
) int32 {
	if d.selected == autoscalingv2.DisabledPolicySelect || len(d.policies) == 0 {
		return in.current
	}
	var limits []int32
	for _, p := range d.policies {
		start := int64(in.current) - within(past.added, period(p), in.now) + within(past.removed, period(p), in.now)
		limits = append(limits, saturate(apply(start, p)))
	}
	if d.selected == autoscalingv2.MinChangePolicySelect {
		return least(limits)
	}
	return most(limits)
}
