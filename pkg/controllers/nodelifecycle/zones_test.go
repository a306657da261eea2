package nodelifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var usual = rates{normal: 0.1, disrupted: 0.01, large: 50, unhealthy: 0.55}

func TestStateOfAZone(t *testing.T) {
	for name, tc := range map[string]struct {
		count count
		want  zoneState
	}{
		"NLC-60: all ready":                    {count{ready: 10}, normal},
		"NLC-60: one not":                      {count{ready: 9, notReady: 1}, normal},
		"NLC-60: two of three are too few":     {count{ready: 1, notReady: 2}, normal},
		"NLC-60: three of five":                {count{ready: 2, notReady: 3}, partial},
		"NLC-60: three of six":                 {count{ready: 3, notReady: 3}, normal},
		"NLC-60: just the share":               {count{ready: 9, notReady: 11}, partial},
		"NLC-60: just below":                   {count{ready: 10, notReady: 12}, normal},
		"NLC-60: the last one lost":            {count{notReady: 20}, full},
		"NLC-60, NLC-77: a single node is all": {count{notReady: 1}, full},
	} {
		t.Run(name, func(t *testing.T) {
			if got := usual.stateOf(tc.count); got != tc.want {
				t.Errorf("state is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRateOfAZone(t *testing.T) {
	for name, tc := range map[string]struct {
		state zoneState
		nodes int
		want  float32
	}{
		"NLC-61: normal":                    {normal, 10, 0.1},
		"NLC-61: down, while others are up": {full, 100, 0.1},
		"NLC-11, NLC-61: disrupted, large":  {partial, 51, 0.01},
		"NLC-11, NLC-61: disrupted, small":  {partial, 50, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := usual.rateOf(tc.state, tc.nodes); got != tc.want {
				t.Errorf("rate is %v, want %v", got, tc.want)
			}
		})
	}
}

func TestReactionToStatesOfZones(t *testing.T) {
	for name, tc := range map[string]struct {
		before, now []zoneState
		want        reaction
	}{
		"NLC-66: no zone counts":                    {nil, nil, keep},
		"NLC-66: the first pass":                    {[]zoneState{initial, initial}, []zoneState{normal, partial}, follow},
		"NLC-66: one goes down":                     {[]zoneState{normal, normal}, []zoneState{normal, full}, follow},
		"NLC-66: still down":                        {[]zoneState{full, full}, []zoneState{full, full}, keep},
		"NLC-64: the last one goes down":            {[]zoneState{full, partial}, []zoneState{full, full}, stop},
		"NLC-64: down at the beginning":             {[]zoneState{initial}, []zoneState{full}, stop},
		"NLC-64: a zone comes that is down, too":    {[]zoneState{full, initial}, []zoneState{full, full}, stop},
		"NLC-65: one comes back":                    {[]zoneState{full, full}, []zoneState{partial, full}, resume},
		"NLC-108: the last one that was up is gone": {[]zoneState{full, normal}, []zoneState{full}, stop},
		"NLC-108: one that was down is gone":        {[]zoneState{full, full}, []zoneState{full}, keep},
		"NLC-108: one that is gone was up":          {[]zoneState{full, normal, initial}, []zoneState{full, normal}, follow},
		"NLC-63: those that are gone do not matter": {[]zoneState{full}, []zoneState{normal}, resume},
		"NLC-105: a zone comes that is up":          {[]zoneState{full, initial}, []zoneState{full, normal}, resume},
		"NLC-105: and one is up already":            {[]zoneState{full, normal, initial}, []zoneState{full, normal, normal}, follow},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reactionTo(tc.before, tc.now); got != tc.want {
				t.Errorf("reaction is %d, want %d", got, tc.want)
			}
		})
	}
}

// let returns at which seconds of some a limiter lets one through.
func let(l *limiter, from, to int) (all []int) {
	for s := from; s <= to; s++ {
		for l.take(at.Add(time.Duration(s) * time.Second)) {
			all = append(all, s)
		}
	}
	return all
}

func TestLimiter(t *testing.T) {
	second := func(s int) time.Time { return at.Add(time.Duration(s) * time.Second) }
	for name, tc := range map[string]struct {
		run  func(l *limiter) []int
		rate float32
		want []int
	}{
		"NLC-34, NLC-69: one at once, then at the rate": {func(l *limiter) []int { return let(l, 0, 25) }, 0.1, []int{0, 10, 20}},
		"NLC-69: no more than one is saved up":          {func(l *limiter) []int { return let(l, 100, 111) }, 0.1, []int{100, 110}},
		"NLC-97: rate 0 lets none through":              {func(l *limiter) []int { return let(l, 0, 100) }, 0, nil},
		"NLC-59: stopped":                               {func(l *limiter) []int { l.set(0, second(0)); return let(l, 0, 100) }, 0.1, nil},
		"NLC-59: nothing is saved while it is stopped": {func(l *limiter) []int {
			l.set(0, second(0))
			l.set(0.1, second(100))
			return let(l, 100, 115)
		}, 0.1, []int{110}},
		"NLC-59: the one that was saved stays": {func(l *limiter) []int { l.set(0.01, second(0)); return let(l, 0, 99) }, 0.1, []int{0}},
		"NLC-59: a part of one does not": {func(l *limiter) []int {
			l.take(second(0))
			l.set(0.5, second(9))
			return let(l, 9, 12)
		}, 0.1, []int{11}},
		"NLC-59: the same rate changes nothing": {func(l *limiter) []int {
			l.take(second(0))
			l.set(0.1, second(9))
			return let(l, 9, 12)
		}, 0.1, []int{10}},
		"NLC-59: rate 1 resumes": {func(l *limiter) []int {
			l.set(0, second(0))
			l.set(1, second(5))
			return let(l, 5, 7)
		}, 1, []int{6, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(tc.rate, at)
			if got := tc.run(&l); len(got) != len(tc.want) || len(got) > 0 && got[0] != tc.want[0] || len(got) > 1 && got[len(got)-1] != tc.want[len(got)-1] {
				t.Errorf("lets through at %v, want %v", got, tc.want)
			}
		})
	}
}

// What is due between two passes is let through, also if that is many. Pins NLC-103.
func TestHighRatesAreReached(t *testing.T) {
	const seconds = 10
	for _, rate := range []float32{1, 10, 20, 1000} {
		l := newLimiter(rate, at)
		count := 0
		for n := range seconds * int(time.Second/grantPeriod) {
			for l.take(at.Add(time.Duration(n) * grantPeriod)) {
				count++
			}
		}
		if got := float32(count) / seconds; got < 0.9*rate || got > 1.1*rate {
			t.Errorf("%v per second at a rate of %v", got, rate)
		}
	}
	l := newLimiter(1000, at)
	later := at.Add(time.Hour)
	l.set(0.1, later)
	if !l.take(later) || l.take(later) {
		t.Error("more than one is let through at once after the rate was lowered")
	}
}

func TestSight(t *testing.T) {
	second := func(s float64) time.Time { return at.Add(time.Duration(s * float64(time.Second))) }
	for name, tc := range map[string]struct {
		signs []float64
		want  float64 // from when on silence counts
	}{
		"NLC-84: it began":                  {nil, 0},
		"NLC-84: signs all the time":        {[]float64{10, 20, 42.5}, 0},
		"NLC-84: a sign that is told late":  {[]float64{10, 30, 5, 31}, 0},
		"NLC-84: an interruption":           {[]float64{10, 33}, 33},
		"NLC-84: an interruption, then not": {[]float64{10, 40, 50, 60}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSight(50*time.Second, 5*time.Second)
			s.begin(at)
			for _, sign := range tc.signs {
				s.reached(second(sign))
			}
			if got := s.silentSince(at.Add(-time.Hour)); !got.Equal(second(tc.want)) {
				t.Errorf("silence counts from %v", got.Sub(at))
			}
			later := second(tc.want + 1)
			if got := s.silentSince(later); !got.Equal(later) {
				t.Errorf("silence of a node that was seen later counts from %v", got.Sub(at))
			}
		})
	}
}

// Pins NLC-107.
func TestAFailedRequestIsAnInterruption(t *testing.T) {
	second := func(s int) time.Time { return at.Add(time.Duration(s) * time.Second) }
	s := newSight(50*time.Second, 5*time.Second)
	s.begin(at)
	s.reached(second(5))
	s.unreached(second(15))
	s.reached(second(10)) // was sent before
	if got := s.silentSince(at); !got.Equal(at) {
		t.Errorf("before the API server answers, silence counts from %v", got.Sub(at))
	}
	next := newSight(50*time.Second, 5*time.Second)
	next.takeOver(s)
	for _, s := range []sight{s, next} {
		s.reached(second(20))
		s.reached(second(25))
		if got := s.silentSince(at); !got.Equal(second(20)) {
			t.Errorf("silence counts from %v", got.Sub(at))
		}
	}
}

func TestHowLateARenewalIsShown(t *testing.T) {
	second := func(s float64) time.Time { return at.Add(time.Duration(s * float64(time.Second))) }
	const unknown = -1
	type shown struct{ renewed, observed, late float64 }
	for name, all := range map[string][]shown{
		"NLC-106: after the first one": {{0, 1, unknown}, {10, 11, 0}, {20, 22, 1}},
		"NLC-106: by another clock":    {{3600, 1, unknown}, {3610, 11, 0}, {3620, 41, 20}},
		"NLC-106: ever later":          {{0, 1, unknown}, {10, 21, 10}, {20, 40, 19}, {30, 60, 29}},
		"NLC-106: faster than before":  {{0, 10, unknown}, {10, 11, unknown}, {20, 33, 12}},
		"NLC-106: centuries ahead":     {{8e9, 1, unknown}, {10, 11, unknown}, {20, 22, 1}},
		"NLC-106: centuries ago":       {{2, 1, unknown}, {-8e9, 11, unknown}, {20, 19, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &record{}
			for _, l := range all {
				late, ok := r.lateness(metav1.NewMicroTime(second(l.renewed)), second(l.observed))
				if ok != (l.late != unknown) || ok && late.Seconds() != l.late {
					t.Errorf("the renewal at %v, shown at %v, is late by %v: %t", l.renewed, l.observed, late, ok)
				}
			}
		})
	}
}

// What a successor sees before it takes over says nothing about Leases. Pins NLC-91 and NLC-106.
func TestWhenASuccessorKnowsThatLeasesAreCurrent(t *testing.T) {
	s := newSight(50*time.Second, 5*time.Second)
	s.begin(at)
	s.sawLeases(at.Add(20 * time.Second))
	succeed(&s, func(s *sight) { s.sawLeases(at.Add(25 * time.Second)) })
	if is := s.leases.Sub(at); is != 20*time.Second {
		t.Errorf("they are current as of %v", is)
	}
}

// succeed replaces a sight by that of a successor, which saw something before it took over.
func succeed(s *sight, sees func(*sight)) {
	next := newSight(50*time.Second, 5*time.Second)
	sees(&next)
	next.takeOver(*s)
	*s = next
}
