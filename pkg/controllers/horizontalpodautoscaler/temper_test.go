package horizontalpodautoscaler

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// tell writes a decision as "replicas ableReason limitedStatus:limitedReason".
func (t tempered) tell() string {
	return strings.Join([]string{itoa(t.replicas), t.able.reason, string(t.limited.status) + ":" + t.limited.reason}, " ")
}

func itoa(n int32) string {
	if n == math.MaxInt32 {
		return "max"
	}
	return strconv.Itoa(int(n))
}

func ago(replicas int32, before time.Duration) recommendation {
	return recommendation{replicas, epoch.Add(-before)}
}

// Pins HPA-39 and HPA-40.
func TestTemper(t *testing.T) {
	const window = 5 * time.Minute
	for name, tc := range map[string]struct {
		proposal, current, min, max int32
		past                        []recommendation
		want                        string
	}{
		"no change":                                      {3, 3, 1, 10, nil, "3 ReadyForNewScale False:DesiredWithinRange"},
		"down at once without a past":                    {1, 3, 1, 10, nil, "1 ReadyForNewScale False:DesiredWithinRange"},
		"down to the highest of the window":              {1, 5, 1, 10, []recommendation{ago(4, window), ago(3, time.Minute)}, "4 ScaleDownStabilized False:DesiredWithinRange"},
		"what is older does not count":                   {1, 5, 1, 10, []recommendation{ago(4, window+1)}, "1 ReadyForNewScale False:DesiredWithinRange"},
		"a higher past can even scale up":                {3, 3, 1, 10, []recommendation{ago(5, time.Minute)}, "5 ScaleDownStabilized False:DesiredWithinRange"},
		"below the minimum":                              {1, 3, 2, 10, nil, "2 ReadyForNewScale True:TooFewReplicas"},
		"above the maximum":                              {12, 9, 1, 10, nil, "10 ReadyForNewScale True:TooManyReplicas"},
		"HPA-40: at most twice as many":                  {9, 3, 1, 10, nil, "6 ReadyForNewScale True:ScaleUpLimit"},
		"HPA-40: or four":                                {9, 1, 1, 10, nil, "4 ReadyForNewScale True:ScaleUpLimit"},
		"HPA-40: rate and maximum are the same":          {9, 3, 1, 6, nil, "6 ReadyForNewScale True:TooManyReplicas"},
		"HPA-40, HPA-49: the minimum wins over the rate": {5, 1, 8, 10, nil, "8 ReadyForNewScale True:TooFewReplicas"},
		"no overflow of the rate":                        {math.MaxInt32, math.MaxInt32 - 1, 1, math.MaxInt32, nil, "max ReadyForNewScale False:DesiredWithinRange"},
		"nothing called for, zero permitted":             {0, 3, 0, 10, nil, "0 ReadyForNewScale False:DesiredWithinRange"},
	} {
		past := &history{recommendations: tc.past}
		got := temper(tempering{tc.proposal, tc.current, tc.min, tc.max, epoch}, past, window)
		if got.tell() != tc.want {
			t.Errorf("%s: got %s", name, got.tell())
		}
		if got.able.kind != autoscalingv2.AbleToScale || got.able.status != corev1.ConditionTrue || got.limited.kind != autoscalingv2.ScalingLimited {
			t.Errorf("%s: findings %+v", name, got)
		}
		if last := past.recommendations; len(last) == 0 || !contains(last, tc.proposal) {
			t.Errorf("%s: the raw proposal was not recorded: %v", name, last)
		}
	}
}

func contains(all []recommendation, replicas int32) bool {
	for _, r := range all {
		if r.replicas == replicas && r.at.Equal(epoch) {
			return true
		}
	}
	return false
}

// Pins HPA-39 and HPA-40.
func TestTemperWordings(t *testing.T) {
	held := temper(tempering{1, 5, 1, 10, epoch}, &history{recommendations: []recommendation{ago(4, 1)}}, time.Minute)
	free := temper(tempering{1, 5, 1, 10, epoch}, &history{}, time.Minute)
	few := temper(tempering{1, 5, 2, 10, epoch}, &history{}, time.Minute)
	many := temper(tempering{11, 10, 2, 10, epoch}, &history{}, time.Minute)
	fast := temper(tempering{9, 1, 1, 10, epoch}, &history{}, time.Minute)
	for got, want := range map[string]string{
		held.able.message:    "recent recommendations were higher than current one, applying the highest recent recommendation",
		free.able.message:    "recommended size matches current size",
		free.limited.message: "the desired count is within the acceptable range",
		few.limited.message:  "the desired replica count is less than the minimum replica count",
		many.limited.message: "the desired replica count is more than the maximum replica count",
		fast.limited.message: "the desired replica count is increasing faster than the maximum scale rate",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Pins HPA-39.
func TestRecordReusesTheLastObsoleteEntry(t *testing.T) {
	h := &history{recommendations: []recommendation{ago(1, 9), ago(2, 8), ago(3, 1)}}
	old := func(at time.Time) bool { return at.Before(epoch.Add(-5)) }
	h.record(7, epoch, old)
	if len(h.recommendations) != 3 || h.recommendations[1] != ago(7, 0) || h.recommendations[0] != ago(1, 9) {
		t.Errorf("got %v", h.recommendations)
	}
	h.record(8, epoch, old)
	h.record(9, epoch, old)
	if len(h.recommendations) != 4 {
		t.Errorf("got %v", h.recommendations)
	}
}

// Pins HPA-44.
func TestRecordScale(t *testing.T) {
	h := &history{}
	h.recordScale(2, 5, epoch.Add(-2*time.Minute), time.Minute, time.Hour)
	h.recordScale(5, 1, epoch.Add(-2*time.Minute), time.Minute, time.Hour)
	h.recordScale(1, 2, epoch, time.Minute, time.Hour)
	h.recordScale(2, 1, epoch, time.Minute, time.Hour)
	if len(h.added) != 1 || h.added[0].replicas != 1 {
		t.Errorf("the outdated slot was not reused: %v", h.added)
	}
	if len(h.removed) != 2 || within(h.removed, time.Hour, epoch) != 5 || within(h.removed, time.Minute, epoch) != 1 {
		t.Errorf("removed %v", h.removed)
	}
	if within(h.removed, 2*time.Minute, epoch) != 1 {
		t.Error("an event exactly a period ago is outside of it")
	}
}

// Pins HPA-21.
func TestSeedOnlyAnEmptyHistory(t *testing.T) {
	h := &history{}
	h.seed(4, epoch, before(epoch))
	h.seed(9, epoch, before(epoch))
	if len(h.recommendations) != 1 || h.recommendations[0] != ago(4, 0) {
		t.Errorf("got %v", h.recommendations)
	}
}

func TestCeiling(t *testing.T) {
	for n, want := range map[float64]int32{0.1: 1, 2: 2, -0.5: 0, math.Inf(1): math.MaxInt32, math.Inf(-1): math.MinInt32, 3e9: math.MaxInt32} {
		if got := ceiling(n); got != want {
			t.Errorf("%v: got %d", n, got)
		}
	}
	if got := ceiling(math.NaN()); got != 0 {
		t.Errorf("not a number: got %d", got)
	}
}

// Pins HPA-62.
func TestInterruptionsTakeNoMoreRoom(t *testing.T) {
	var h history
	for i := range 10 {
		now := epoch.Add(time.Duration(i) * time.Hour)
		h.interrupted = true
		h.seed(3, now, before(now.Add(-time.Minute)))
	}
	if len(h.recommendations) != 1 {
		t.Errorf("%d recommendations", len(h.recommendations))
	}
}
