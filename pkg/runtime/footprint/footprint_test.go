package footprint

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestThePaceOfTheCollectorDecides(t *testing.T) {
	type moment struct {
		after  time.Duration
		rests  bool // otherwise a cycle ended
		growth int
	}
	for name, moments := range map[string][]moment{
		"it works":                            {{time.Second, false, 100}, {busy, false, 100}},
		"it comes to rest":                    {{time.Second, false, 100}, {quiet, true, 40}, {time.Minute, false, 40}},
		"work ends the rest at once":          {{quiet, true, 40}, {time.Minute, false, 40}, {busy - 1, false, 100}},
		"cycles that come often are too many": {{quiet, true, 40}, {0, false, 60}, {often - 1, false, 80}, {often - 1, false, 100}, {often - 1, false, 100}},
		"there can be more of them":           {{quiet, true, 40}, {0, false, 60}, {often, false, 60}, {seldom, false, 60}, {seldom + 1, false, 40}, {seldom + 1, false, 40}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			p := newPace(now)
			for n, m := range moments {
				now = now.Add(m.after)
				if m.rests {
					p.rest()
				} else {
					p.cycle(now)
				}
				if p.growth != m.growth {
					t.Errorf("moment %d: the heap may grow by %d%%, want %d%%", n, p.growth, m.growth)
				}
			}
		})
	}
}

func TestRestBeginsOnce(t *testing.T) {
	p := newPace(time.Now())
	if !p.rest() || p.rest() {
		t.Error("rest does not begin once")
	}
}

// growth returns the percentage that is set.
func growth() int {
	percent := debug.SetGCPercent(mostGrowth)
	debug.SetGCPercent(percent)
	return percent
}

func TestTheCollectorIsSet(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(mostGrowth))
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(true)
		wait := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := growth(); got != want {
				t.Errorf("the heap grows by %d%%, want %d%%", got, want)
			}
		}
		wait(quiet-1, mostGrowth)
		k.cycle(time.Now())
		wait(quiet-1, mostGrowth)
		wait(1, leastGrowth)
		k.cycle(time.Now())
		wait(time.Second, leastGrowth+step)
		k.cycle(time.Now())
		wait(0, mostGrowth)
		wait(quiet, leastGrowth)
		k.stop()
		wait(time.Hour, mostGrowth)
		if k.cycle(time.Now()) {
			t.Error("cycles are followed after the end")
		}
	})
}

func TestAnOperatorDecides(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(55))
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(false)
		defer k.stop()
		time.Sleep(quiet)
		synctest.Wait()
		if got := growth(); got != 55 {
			t.Errorf("the heap grows by %d%%", got)
		}
	})
}

// Each cycle is noticed, and none after the end.
func TestCyclesAreNoticed(t *testing.T) {
	k := newKeeper(false)
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

// The program goes on with what Keep does.
func TestKeep(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(mostGrowth))
	stop := Keep()
	runtime.GC()
	stop()
	if got := growth(); got != mostGrowth {
		t.Errorf("after the end, the heap grows by %d%%", got)
	}
}
