package horizontalpodautoscaler

import (
	"math/rand/v2"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"kcmd.dev/test/controllertest"
)

// sized is a number of replicas and when it was recommended, or set.
type sized struct {
	replicas int32
	at       time.Time
}

// extremes returns the lowest and the highest recommendation after a time.
func extremes(all []sized, after time.Time) (lowest, highest int32) {
	last := all[len(all)-1].replicas
	lowest, highest = last, last
	for _, s := range all {
		if s.at.After(after) {
			lowest, highest = min(lowest, s.replicas), max(highest, s.replicas)
		}
	}
	return lowest, highest
}

// sizeAt returns the size at a time, given all sizes that were set.
func sizeAt(all []sized, at time.Time) int32 {
	size := all[0].replicas
	for _, s := range all {
		if !s.at.After(at) {
			size = s.replicas
		}
	}
	return size
}

// randomDirection returns a direction whose first policy has a period, and whose second has none longer.
func randomDirection(n func(int) int, period int32) direction {
	d := direction{window: time.Duration(n(4)*n(60)) * time.Second}
	d.selected = []autoscalingv2.ScalingPolicySelect{
		autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect,
	}[n(8)*n(2)%3]
	types := []autoscalingv2.HPAScalingPolicyType{autoscalingv2.PodsScalingPolicy, autoscalingv2.PercentScalingPolicy}
	for range 1 + n(2) {
		d.policies = append(d.policies, autoscalingv2.HPAScalingPolicy{
			Type: types[n(2)], Value: int32(1 + n(120)), PeriodSeconds: period,
		})
		period = 1 + int32(n(int(period)))
	}
	return d
}

// farthest returns the size that a direction allows to go to, computed from the sizes that were set. sign is 1 for up.
func farthest(d direction, sizes []sized, current int32, now time.Time, sign int64) int64 {
	if d.selected == autoscalingv2.DisabledPolicySelect {
		return int64(current)
	}
	var limit int64
	for i, p := range d.policies {
		start := int64(sizeAt(sizes, now.Add(-time.Duration(p.PeriodSeconds)*time.Second)))
		may := start + sign*int64(p.Value)
		if p.Type == autoscalingv2.PercentScalingPolicy {
			may = start * (100 + sign*int64(p.Value)) / 100
			if sign > 0 {
				may = (start*(100+int64(p.Value)) + 99) / 100
			}
		}
		isFarther := sign*may > sign*limit
		if i == 0 || isFarther == (d.selected == autoscalingv2.MaxChangePolicySelect) {
			limit = may
		}
	}
	return limit
}

// TestWhateverIsRecommendedWindowsAndRatesHold has sizes recommended at random. Pins HPA-42 and HPA-43.
func TestWhateverIsRecommendedWindowsAndRatesHold(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := random.IntN
		longest := 1 + int32(n(90)) // of both directions: a change that its own has forgotten does not count for the other
		b := behavior{up: randomDirection(n, longest), down: randomDirection(n, longest)}
		past, now := &history{}, controllertest.Epoch
		least := int32(1 + n(5))
		in := tempering{min: least, max: least + int32(n(60)), current: least}
		sizes, recommended := []sized{{in.current, now}}, []sized(nil)
		for range 150 {
			now = now.Add(time.Duration(n(30)) * time.Second)
			in.now, in.proposal = now, int32(n(80))
			recommended = append(recommended, sized{in.proposal, now})
			lowest, _ := extremes(recommended, now.Add(-b.up.window))
			_, highest := extremes(recommended, now.Add(-b.down.window))
			up, down := farthest(b.up, sizes, in.current, now, 1), farthest(b.down, sizes, in.current, now, -1)
			want := int64(min(max(in.current, lowest), highest))
			if current := int64(in.current); want > current {
				want = min(want, int64(in.max), max(up, current))
			} else if want < current {
				want = max(want, int64(in.min), min(down, current))
			}
			got := temperByBehavior(in, past, b).replicas
			if int64(got) != want {
				t.Errorf("seed %d: from %d to %d, want %d; recommended %d to %d, allowed %d to %d",
					seed, in.current, got, want, lowest, highest, down, up)
			}
			if got != in.current {
				past.recordScale(in.current, got, now, b.up.longestPeriod(), b.down.longestPeriod())
				sizes, in.current = append(sizes, sized{got, now}), got
			}
		}
		if t.Failed() {
			return
		}
	}
}
