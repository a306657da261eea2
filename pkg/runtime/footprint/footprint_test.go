package footprint

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheWorkDecides(t *testing.T) {
	const little, much = working - 1, working // bytes in a second
	type moment struct {
		after  time.Duration
		rate   uint64
		looks  bool // otherwise a cycle ended
		growth int
	}
	for name, moments := range map[string][]moment{
		"it works":                            {{time.Second, much, false, 100}, {lasting - time.Second - 1, much, false, 100}},
		"the work lasts":                      {{lasting, much, false, 300}, {time.Minute, much, false, 300}, {look, much, true, 300}},
		"less work is left":                   {{lasting, much, false, 300}, {time.Second, little, false, 100}, {time.Second, much, false, 300}},
		"it comes to rest":                    {{look, little, true, 40}, {time.Minute, little, false, 40}},
		"it comes to rest after long work":    {{lasting, much, false, 300}, {look, little, true, 40}},
		"a cycle in between":                  {{time.Second, little, false, 100}, {look, much, true, 100}, {look, little, true, 40}},
		"work ends the rest at once":          {{look, little, true, 40}, {time.Minute, little, false, 40}, {time.Second, much, false, 100}, {lasting - 1, much, false, 100}, {1, much, false, 300}},
		"cycles that come often are too many": {{look, little, true, 40}, {0, 0, false, 60}, {often - 1, little, false, 80}, {often - 1, little, false, 100}, {often - 1, little, false, 100}},
		"there can be more of them":           {{look, little, true, 40}, {time.Second, little, false, 60}, {often, little, false, 60}, {seldom, little, false, 60}, {seldom + 1, little, false, 40}, {seldom + 1, little, false, 40}},
	} {
		t.Run(name, func(t *testing.T) {
			now := reading{at: time.Now(), live: 16 << 20}
			p := newPace(now)
			for n, m := range moments {
				now.at = now.at.Add(m.after)
				now.allocated += m.rate * uint64(m.after) / uint64(time.Second)
				if m.after > 0 && m.rate == much {
					now.allocated++ // what division has cut off
				}
				if m.looks {
					p.look(now)
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

func TestALargeHeapGrowsByItsSize(t *testing.T) {
	now := reading{at: time.Now(), live: 1 << 30}
	p := newPace(now)
	now.at = now.at.Add(lasting)
	now.allocated = 1 << 30
	if p.cycle(now); p.growth != workGrowth {
		t.Errorf("the heap may grow by %d%%", p.growth)
	}
}

func TestRestBeginsOnce(t *testing.T) {
	now := reading{at: time.Now()}
	p := newPace(now)
	now.at = now.at.Add(look)
	if !p.look(now) || p.look(now) {
		t.Error("rest does not begin once")
	}
}

// growth returns the percentage that is set.
func growth() int {
	percent := debug.SetGCPercent(workGrowth)
	debug.SetGCPercent(percent)
	return percent
}

// As in all tests with a keeper, the time is that of a synctest bubble: nothing waits.
func TestTheCollectorIsSet(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(workGrowth))
	synctest.Test(t, func(t *testing.T) {
		var allocated atomic.Uint64
		k := newKeeper(true, func() reading { return reading{time.Now(), allocated.Load(), 16 << 20} })
		var freed atomic.Int32
		k.free = func() { freed.Add(1) }
		wait := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := growth(); got != want {
				t.Errorf("the heap grows by %d%%, want %d%%", got, want)
			}
		}
		wait(look-1, workGrowth)
		k.cycle()
		wait(look-1, workGrowth)
		wait(1, leastGrowth)
		k.cycle() // that of free
		wait(0, leastGrowth)
		k.cycle()
		wait(time.Second, leastGrowth+step)
		allocated.Add(working)
		k.cycle()
		wait(0, workGrowth)
		allocated.Add(10 * working)
		wait(look, workGrowth) // it is looked again
		wait(look, leastGrowth)
		if n := freed.Load(); n != 1 {
			t.Errorf("the memory was freed %d times within a minute", n)
		}
		wait(apart, leastGrowth)
		if n := freed.Load(); n != 2 {
			t.Errorf("the memory was freed %d times after a minute", n)
		}
		wait(time.Hour, leastGrowth)
		if n := freed.Load(); n != 2 {
			t.Errorf("the memory was freed %d times after one piece of work", n)
		}
		k.stop()
		wait(time.Hour, workGrowth)
		if k.cycle() {
			t.Error("cycles are followed after the end")
		}
	})
}

func TestAnOperatorDecides(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(55))
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(false, read)
		defer k.stop()
		k.free = func() { t.Error("the memory is freed") }
		time.Sleep(look)
		synctest.Wait()
		if got := growth(); got != 55 {
			t.Errorf("the heap grows by %d%%", got)
		}
	})
}

// Each cycle is noticed, and none after the end.
func TestCyclesAreNoticed(t *testing.T) {
	k := newKeeper(false, read)
	k.follow()
	seen := func() time.Time {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.pace.cycled.at
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
	defer debug.SetGCPercent(debug.SetGCPercent(workGrowth))
	stop := Keep()
	runtime.GC()
	stop()
	if got := growth(); got != workGrowth {
		t.Errorf("after the end, the heap grows by %d%%", got)
	}
}
