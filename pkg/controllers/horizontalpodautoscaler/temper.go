package horizontalpodautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// tempering is the input of the decision how far to follow the metrics at once.
type tempering struct {
	proposal int32 // replicas that the metrics require
	current  int32
	min, max int32 // bounds of the autoscaler
	now      time.Time
}

// finding is the state of one condition.
type finding struct {
	kind            conditionType
	status          corev1.ConditionStatus
	reason, message string
}

// tempered is a limited size with its conditions and reasons.
type tempered struct {
	replicas int32
	able     finding // AbleToScale: whether recent recommendations hold it back
	limited  finding // ScalingLimited: whether a bound or a rate does
}

const (
	atScaleUpLimit   = "the desired replica count is increasing faster than the maximum scale rate"
	atScaleDownLimit = "the desired replica count is decreasing faster than the maximum scale rate"
	tooMany          = "the desired replica count is more than the maximum replica count"
	tooFew           = "the desired replica count is less than the minimum replica count"
	inRange          = "the desired count is within the acceptable range"
)

// limit records whether and why a size was limited.
func limit(stabilized, replicas int32, reason, message string) finding {
	if stabilized == replicas {
		return finding{autoscalingv2.ScalingLimited, corev1.ConditionFalse, reason, message}
	}
	return finding{autoscalingv2.ScalingLimited, corev1.ConditionTrue, reason, message}
}

func able(reason, message string) finding {
	return finding{autoscalingv2.AbleToScale, corev1.ConditionTrue, reason, message}
}

func readyForNewScale() finding {
	return able("ReadyForNewScale", "recommended size matches current size")
}

func scaleDownStabilized() finding {
	return able("ScaleDownStabilized",
		"recent recommendations were higher than current one, applying the highest recent recommendation")
}

func scaleUpStabilized() finding {
	return able("ScaleUpStabilized",
		"recent recommendations were lower than current one, applying the lowest recent recommendation")
}

// temper decides for an autoscaler without spec.behavior: the highest recommendation of
// the window counts, at most twice the present size is taken, and at least min. It records
// the proposal.
func temper(in tempering, past *history, window time.Duration) tempered {
	old := before(in.now.Add(-window))
	stabilized := in.proposal
	for _, r := range past.recommendations {
		if !old(r.at) {
			stabilized = max(stabilized, r.replicas)
		}
	}
	past.record(in.proposal, in.now, old)

	out := tempered{able: readyForNewScale()}
	if stabilized != in.proposal {
		out.able = scaleDownStabilized()
	}
	out.replicas, out.limited = bound(in, stabilized)
	return out
}

func before(cutoff time.Time) func(at time.Time) bool {
	return func(at time.Time) bool { return at.Before(cutoff) }
}

// bound limits a size to at least min, and to at most max and the number allowed at once.
func bound(in tempering, stabilized int32) (int32, finding) {
	fastest := saturate(max(2*int64(in.current), 4))
	highest := min(in.max, fastest)
	replicas, reason, message := stabilized, "DesiredWithinRange", inRange
	switch {
	case stabilized < in.min:
		replicas, reason, message = in.min, "TooFewReplicas", tooFew
	case stabilized > highest && in.max > fastest:
		replicas, reason, message = highest, "ScaleUpLimit", atScaleUpLimit
	case stabilized > highest:
		replicas, reason, message = highest, "TooManyReplicas", tooMany
	}
	return replicas, limit(stabilized, replicas, reason, message)
}

// saturate converts a number to int32, saturating on overflow.
func saturate(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// ceiling rounds a number of replicas up. It returns zero for NaN.
func ceiling(n float64) int32 {
	switch n = math.Ceil(n); {
	case math.IsNaN(n):
		return 0
	case n >= math.MaxInt32:
		return math.MaxInt32
	case n <= math.MinInt32:
		return math.MinInt32
	}
	return int32(n)
}
