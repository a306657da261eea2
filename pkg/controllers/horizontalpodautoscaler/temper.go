package horizontalpodautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// tempering is what decides how far a workload follows its metrics at once.
type tempering struct {
	proposal int32 // replicas that the metrics call for
	current  int32
	min, max int32 // bounds of the autoscaler
	now      time.Time
}

// finding is the state of one condition.
type finding struct {
	kind            autoscalingv2.HorizontalPodAutoscalerConditionType
	status          corev1.ConditionStatus
	reason, message string
}

// tempered is a size with what is to be said about it.
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

// limit says that a size was changed, and why; or that it was not.
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
	return able("ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation")
}

func scaleUpStabilized() finding {
	return able("ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation")
}

// temper decides for an autoscaler without spec.behavior: the highest recommendation of
// the window counts, at most twice the present size is taken, and at least min. It records
// the proposal.
func temper(in tempering, past *history, window time.Duration) tempered {
	cutoff := in.now.Add(-window)
	old := func(at time.Time) bool { return at.Before(cutoff) }
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

// bound keeps a size between min and the lower of max and what may be added at once.
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

// saturate makes an int32 of a number of replicas that may be larger or smaller.
func saturate(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// ceiling rounds a number of replicas up. It is zero for what is not a number.
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
