package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/pods"
)

var (
	errNoPods     = errors.New("no pods returned by selector while calculating replica count")
	errNoSamples  = errors.New("did not receive metrics for targeted pods (pods might be unready)")
	errNoRequests = errors.New("no metrics returned matched known pods")
)

// tolerances are the accepted deviations from a target, as fractions.
type tolerances struct{ down, up float64 }

func (t tolerances) within(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

// tolerancesOf returns the tolerances of the configuration unless spec.behavior sets its own.
func tolerancesOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior, fallback float64, configurable bool) tolerances {
	t := tolerances{down: fallback, up: fallback}
	if b == nil || !configurable {
		return t
	}
	if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
		t.down = b.ScaleDown.Tolerance.AsApproximateFloat64()
	}
	if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		t.up = b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return t
}

// sizes are the replicas in the scale of the target.
type sizes struct{ spec, status int32 }

// fromRatio computes the replicas that bring a value for the whole workload, given as
// a multiple of its target, to that target. It is shared by the pods that are ready.
func fromRatio(ratio float64, size sizes, all []*corev1.Pod, t tolerances) (int32, error) {
	if size.spec == 0 {
		return ceiling(ratio), nil
	}
	if t.within(ratio) {
		return size.spec, nil
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("unable to calculate ready pods: %w", errNoPods)
	}
	ready := 0
	for _, pod := range all {
		if pod.Status.Phase == corev1.PodRunning && pods.IsReady(pod) {
			ready++
		}
	}
	return ceiling(ratio * float64(ready)), nil
}

// fromTotal computes the replicas among which a value is shared at the target of each. It
// also returns the present share; that is the value if there are none or one.
func fromTotal(value, target int64, size sizes, t tolerances) (replicas int32, share int64) {
	ratio := float64(value) / (float64(target) * float64(size.status))
	replicas = size.status
	if !t.within(ratio) {
		replicas = ceiling(float64(value) / float64(target))
	}
	if size.status <= 1 || value == math.MaxInt64 {
		return replicas, value
	}
	return replicas, int64(math.Ceil(float64(value) / float64(size.status)))
}

// reading is the value of the samples of some pods.
type reading struct {
	ratio       float64 // of the present value and the target
	average     int64   // for each pod
	utilization int32   // percent of the requests; zero for goals that are no utilization
}

// goal is the target of a metric of pods.
type goal interface {
	read(samples) (reading, error)
	// assumed returns the amount assumed for a pod without a sample when scaling down.
	assumed(pod string) int64
}

// averageGoal is an amount for each pod.
type averageGoal int64

func (g averageGoal) read(s samples) (reading, error) {
	total := new(big.Int)
	for _, sample := range s {
		total.Add(total, big.NewInt(sample.amount))
	}
	average := fraction(total, 1, big.NewInt(int64(len(s))))
	return reading{ratio: float64(average) / float64(g), average: average}, nil
}

func (g averageGoal) assumed(string) int64 { return int64(g) }

// utilizationGoal is a percentage of what the pods request.
type utilizationGoal struct {
	percent  int32
	requests map[string]int64 // by pod
}

func (g utilizationGoal) read(s samples) (reading, error) {
	used, requested, count := new(big.Int), new(big.Int), int64(0)
	for pod, sample := range s {
		request, ok := g.requests[pod]
		if !ok {
			continue
		}
		used.Add(used, big.NewInt(sample.amount))
		requested.Add(requested, big.NewInt(request))
		count++
	}
	if requested.Sign() == 0 {
		return reading{}, errNoRequests
	}
	// Whole percents: the ratio is that of what the status shows.
	utilization := saturate(fraction(used, 100, requested))
	return reading{
		ratio:       float64(utilization) / float64(g.percent),
		average:     fraction(used, 1, big.NewInt(count)),
		utilization: utilization,
	}, nil
}

func (g utilizationGoal) assumed(pod string) int64 {
	return fraction(big.NewInt(g.requests[pod]), max(100, int64(g.percent)), big.NewInt(100))
}

// fromPods computes the replicas that bring the pods to their goal. Pods without a reliable
// sample damp the change:
//
//  1. Without a sample: they are assumed to be at the goal when scaling down, and idle
//     when scaling up.
//  2. Not ready yet: they are ignored when scaling down, and assumed idle when scaling up.
//  3. If the assumptions reverse the direction, nothing changes.
//
// known are the samples of the pods that count, at least one; the reading is that of those
// alone.
func fromPods(known samples, groups podGroups, g goal, current int32, t tolerances) (int32, reading, error) {
	first, err := g.read(known)
	if err != nil {
		return 0, reading{}, err
	}
	upWithUnready := len(groups.unready) > 0 && first.ratio > 1
	if !upWithUnready && len(groups.missing) == 0 {
		if t.within(first.ratio) {
			return current, first, nil
		}
		return ceiling(first.ratio * float64(groups.ready)), first, nil
	}

	assumed := assume(known, groups, g, first.ratio)
	second, err := g.read(assumed)
	if err != nil {
		return 0, reading{}, err
	}
	if t.within(second.ratio) || opposed(first.ratio, second.ratio) {
		return current, first, nil
	}
	replicas := ceiling(second.ratio * float64(len(assumed)))
	if opposed(second.ratio, float64(replicas)/float64(current)) {
		return current, first, nil
	}
	return replicas, first, nil
}

// opposed reports whether one ratio requires more replicas and the other one fewer.
func opposed(a, b float64) bool { return a < 1 && b > 1 || a > 1 && b < 1 }

// assume adds samples for the pods that have none or an unreliable one.
func assume(known samples, groups podGroups, g goal, ratio float64) samples {
	all := make(samples, len(known)+len(groups.missing)+len(groups.unready))
	maps.Copy(all, known)
	switch {
	case ratio < 1:
		for _, pod := range groups.missing {
			all[pod] = sample{amount: g.assumed(pod)}
		}
	case ratio > 1:
		for _, pod := range groups.missing {
			all[pod] = sample{}
		}
		for _, pod := range groups.unready {
			all[pod] = sample{}
		}
	}
	return all
}
