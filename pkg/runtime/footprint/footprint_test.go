package footprint

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestThePaceOfTheCollectorDecides(t *testing.T) {
	type cycle struct {
		after  time.Duration
		growth int
		rests  bool
	}
	for name, cycles := range map[string][]cycle{
		"the first cycle says nothing":    {{time.Hour, 100, false}},
		"it comes to rest by and by":      {{0, 100, false}, {idle + 1, 80, true}, {time.Minute, 60, false}, {time.Minute, 40, false}, {time.Minute, 40, false}},
		"work ends the rest at once":      {{0, 100, false}, {time.Minute, 80, true}, {time.Minute, 60, false}, {time.Second, 100, false}, {time.Minute, 80, true}},
		"in between, all stays as it was": {{0, 100, false}, {time.Minute, 80, true}, {idle, 80, false}, {busy, 80, false}, {time.Minute, 60, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var p pace
			now := time.Now()
			for n, want := range cycles {
				now = now.Add(want.after)
				if growth, rests := p.cycle(now); growth != want.growth || rests != want.rests {
					t.Errorf("cycle %d: the heap may grow by %d%%, comes to rest: %v", n, growth, rests)
				}
			}
		})
	}
}

// growth returns the percentage that is set.
func growth() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

func TestTheCollectorIsSet(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(mostGrowth))
	k := &keeper{applied: mostGrowth}
	now := time.Now()
	for range 3 {
		k.cycle(now)
		now = now.Add(time.Minute)
	}
	if got := growth(); got != 60 {
		t.Errorf("at rest, the heap grows by %d%%", got)
	}
	k.stop()
	if got := growth(); got != mostGrowth || k.cycle(now) {
		t.Errorf("after the end, the heap grows by %d%%", got)
	}
}

func TestAnOperatorDecides(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(55))
	t.Setenv("GOGC", "55")
	defer Keep()()
	k := &keeper{}
	now := time.Now()
	for range 3 {
		k.cycle(now)
		now = now.Add(time.Minute)
	}
	if got := growth(); got != 55 {
		t.Errorf("the heap grows by %d%%", got)
	}
}

// Each cycle is noticed, and none after the end.
func TestCyclesAreNoticed(t *testing.T) {
	k := &keeper{}
	k.follow()
	seen := func() time.Time {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.pace.last
	}
	for range 3 {
		before := seen()
		for deadline := time.Now().Add(10 * time.Second); seen().Equal(before); {
			if time.Now().After(deadline) {
				t.Fatal("a cycle was not noticed")
			}
			runtime.GC()
			runtime.Gosched()
		}
	}
	k.stop()
	before := seen()
	runtime.GC()
	runtime.GC()
	if !seen().Equal(before) {
		t.Error("a cycle was noticed after the end")
	}
}
