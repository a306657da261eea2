package footprint

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kcmd.dev/test/await"
)

func TestTheWorkDecides(t *testing.T) {
	const (
		little, much = working - 1, working // bytes in a second
		burst, long  = 150, 300             // percent of 16 MiB
	)
	type moment struct {
		after   time.Duration
		rate    uint64
		looks   bool // otherwise a cycle ended
		growth  int
		garbage int // percent, at rest
	}
	rests := moment{look, little, true, burst, 40}
	for name, moments := range map[string][]moment{
		"it works":                            {{time.Second, much, false, burst, 0}, {lasting - time.Second - 1, much, false, burst, 0}},
		"the work lasts":                      {{lasting, much, false, long, 0}, {time.Minute, much, false, long, 0}, {look, much, true, long, 0}},
		"less work is left":                   {{lasting, much, false, long, 0}, {time.Second, little, false, long, 0}},
		"it comes to rest":                    {rests, {time.Minute, little, false, burst, 40}},
		"it comes to rest after long work":    {{lasting, much, false, long, 0}, rests},
		"work ends the rest at once":          {rests, {time.Minute, little, false, burst, 40}, {time.Second, much, false, burst, 0}, {lasting - 1, much, false, burst, 0}, {1, much, false, long, 0}},
		"work that needs no cycle":            {rests, {look, much, true, burst, 0}, rests},
		"it is seen since the last look":      {rests, {time.Minute, 0, false, burst, 40}, {look, 0, true, burst, 40}, {time.Second, much, false, burst, 0}},
		"a moment does not tell":              {rests, {time.Second / 2, much, false, burst, 60}},
		"cycles that come often are too many": {rests, {0, 0, false, burst, 60}, {often - 1, little, false, burst, 80}, {often - 1, little, false, burst, 100}, {often - 1, little, false, burst, 100}},
		"there can be more of them":           {rests, {time.Second, little, false, burst, 60}, {often, little, false, burst, 60}, {seldom, little, false, burst, 60}, {seldom + 1, little, false, burst, 40}, {seldom + 1, little, false, burst, 40}},
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
				if got := p.growth(); got != m.growth {
					t.Errorf("moment %d: the heap may grow by %d%%, want %d%%", n, got, m.growth)
				}
				if works := !p.began.IsZero(); works != (m.garbage == 0) || !works && p.garbage != m.garbage {
					t.Errorf("moment %d: it works: %t, and %d%% may be garbage, want %d%%", n, works, p.garbage, m.garbage)
				}
			}
		})
	}
}

func TestTheHeapGrowsByItsSize(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 600}, {4 << 20, 600}, {24 << 20, 100}, {1 << 30, 100}} {
		p := newPace(reading{at: time.Now(), live: c.live})
		if got := p.growth(); got != c.want {
			t.Errorf("with %d bytes alive, the heap may grow by %d%%, want %d%%", c.live, got, c.want)
		}
	}
}

func TestGarbageIsCountedAtRest(t *testing.T) {
	now := reading{at: time.Now(), live: 100}
	p := newPace(now)
	later := func(garbage uint64) reading { return reading{now.at.Add(look), now.allocated + garbage, now.live} }
	if p.full(later(1000)) {
		t.Error("it is collected during the work")
	}
	p.look(later(0))
	if p.full(later(39)) || !p.full(later(40)) {
		t.Error("not 40% of what is alive may be garbage")
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
	percent := debug.SetGCPercent(leastGrowth)
	debug.SetGCPercent(percent)
	return percent
}

// As in all tests with a keeper, the time is that of a synctest bubble: nothing waits.
func TestTheCollectorIsSet(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(leastGrowth))
	synctest.Test(t, func(t *testing.T) {
		const burst, long = 150, 300
		var allocated atomic.Uint64
		k := newKeeper(true, func() reading { return reading{time.Now(), allocated.Load(), 16 << 20} })
		var freed, collected atomic.Int32
		k.free = func() { freed.Add(1) }
		k.collect = func() { collected.Add(1) }
		wait := func(d time.Duration, wantGrowth, wantFreed, wantCollected int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := growth(); got != wantGrowth {
				t.Errorf("the heap grows by %d%%, want %d%%", got, wantGrowth)
			}
			if got := int(freed.Load()); got != wantFreed {
				t.Errorf("the memory was freed %d times, want %d", got, wantFreed)
			}
			if got := int(collected.Load()); got != wantCollected {
				t.Errorf("%d cycles were begun at rest, want %d", got, wantCollected)
			}
		}
		wait(look-1, burst, 0, 0)
		k.cycle()
		wait(look-1, burst, 0, 0)
		wait(1, burst, 1, 0)
		k.cycle() // that of free
		wait(look, burst, 1, 0)
		allocated.Add(working)
		wait(look, burst, 1, 0)
		allocated.Add(working)
		wait(look, burst, 1, 1) // half of what is alive
		k.cycle()
		wait(look, burst, 1, 1)
		allocated.Add(10 * working)
		k.cycle()
		wait(0, burst, 1, 1)
		allocated.Add(10 * working)
		wait(look, burst, 1, 1) // it is looked again
		allocated.Add(10 * working)
		k.cycle()
		wait(0, long, 1, 1)
		wait(look, burst, 1, 1) // it was freed less than a minute ago
		wait(apart, burst, 2, 1)
		wait(time.Hour, burst, 2, 1)
		k.stop()
		wait(time.Hour, leastGrowth, 2, 1)
		if k.cycle() {
			t.Error("cycles are followed after the end")
		}
	})
}

func TestAnOperatorDecides(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(55))
	synctest.Test(t, func(t *testing.T) {
		var allocated atomic.Uint64
		k := newKeeper(false, func() reading { return reading{time.Now(), allocated.Load(), 1} })
		defer k.stop()
		k.free = func() { t.Error("the memory is freed") }
		k.collect = func() { t.Error("the garbage is collected") }
		time.Sleep(look)
		allocated.Add(100)
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
		await.True(t, "a cycle is noticed", func() bool {
			runtime.GC()
			return !seen().Equal(before)
		})
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
	defer debug.SetGCPercent(debug.SetGCPercent(leastGrowth))
	stop := Keep()
	runtime.GC()
	stop()
	if got := growth(); got != leastGrowth {
		t.Errorf("after the end, the heap grows by %d%%", got)
	}
}
