package footprint

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// look is how long after the last cycle of the collector, or the last look, it is decided whether the
	// process works.
	look = 3 * time.Second
	// working is how many bytes a process that works allocates in a second, at least; lasting is how long
	// it does so until the heap may grow by more.
	working = 4 << 20
	lasting = 3 * time.Second
	// burstRoom and lastingRoom are the bytes by which the heap may grow until the next cycle, if that is
	// more than what is alive.
	burstRoom   = 24 << 20
	lastingRoom = 48 << 20
	// apart is the least time between two times at which what the work has left is freed.
	apart = time.Minute
	// often and seldom are the times between two cycles, at rest, below and above which there may be more
	// garbage, or less. Without need, the collector runs every two minutes.
	often  = 10 * time.Second
	seldom = 30 * time.Second

	// Percentages of what is alive: by which the heap may always grow, and, at rest, of garbage.
	leastGrowth  = 100
	leastGarbage = 40
	mostGarbage  = 100
	step         = 20
)

// reading is what the runtime says at a time: how many bytes were allocated so far, and how many were alive in
// the last cycle.
type reading struct {
	at              time.Time
	allocated, live uint64
}

func read() reading {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return reading{time.Now(), samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// pace decides how much the heap may grow, and when at rest its garbage is to be collected.
type pace struct {
	cycled, looked reading   // the last cycle, and the last look or cycle
	began          time.Time // of the work; zero at rest
	garbage        int       // percentage of what is alive that garbage may reach at rest
}

func newPace(now reading) pace {
	return pace{cycled: now, looked: now, began: now.at, garbage: leastGarbage}
}

// cycle is called after each cycle, but those of free.
func (p *pace) cycle(now reading) {
	passed := now.at.Sub(p.cycled.at)
	works := now.worksSince(p.looked)
	p.cycled, p.looked = now, now
	switch {
	case works && p.began.IsZero():
		p.began = now.at
	case works, !p.began.IsZero():
	case passed < often:
		p.garbage = min(p.garbage+step, mostGarbage)
	case passed > seldom:
		p.garbage = max(p.garbage-step, leastGarbage)
	}
}

// growth returns the percentage of what is alive by which the heap may grow.
func (p *pace) growth() int {
	room := burstRoom
	if !p.began.IsZero() && p.cycled.at.Sub(p.began) >= lasting {
		room = lastingRoom
	}
	// Below 4 MiB, the runtime counts these.
	return max(leastGrowth, int(uint64(room)*100/max(p.cycled.live, 4<<20)))
}

// look is called when there was no cycle for a while. It reports whether the process has come to rest.
func (p *pace) look(now reading) bool {
	works := now.worksSince(p.looked)
	p.looked = now
	switch {
	case works && p.began.IsZero():
		p.began = now.at
	case !works && !p.began.IsZero():
		p.began, p.garbage = time.Time{}, leastGarbage
		return true
	}
	return false
}

// full reports whether the process rests and has as much garbage as it may have.
func (p *pace) full(now reading) bool {
	return p.began.IsZero() && (now.allocated-p.cycled.allocated)*100 >= p.cycled.live*uint64(p.garbage)
}

// worksSince reports whether the process has worked since an earlier reading. A moment does not tell.
func (r reading) worksSince(earlier reading) bool {
	return float64(r.allocated-earlier.allocated) >= working*max(r.at.Sub(earlier.at), time.Second).Seconds()
}

// keeper applies what a pace decides.
type keeper struct {
	mu      sync.Mutex
	pace    pace
	applied int // the percentage that is set; 0 if the collector is left alone
	read    func() reading
	collect func()    // runs a cycle
	free    func()    // runs a cycle, and gives the memory back
	freed   time.Time // when that was done
	left    bool      // there has been work since
	forced  bool      // the next cycle is the one of free
	timer   *time.Timer
	stopped bool
}

// Keep follows the rules of this package until the returned function is called.
func Keep() (stop func()) {
	k := newKeeper(os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "", read)
	giveBackProgram()
	k.follow()
	return k.stop
}

func newKeeper(sets bool, read func() reading) *keeper {
	k := &keeper{read: read, collect: runtime.GC, free: debug.FreeOSMemory, pace: newPace(read())}
	if sets {
		k.set(k.pace.growth())
	}
	k.mu.Lock() // the timer may be the first to take it
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(look, k.look)
	return k
}

// sentinel is garbage as soon as it is made. Its finalizer runs after the next cycle.
type sentinel struct{ _ *sentinel }

// follow has the next cycle noticed, and those after it.
func (k *keeper) follow() {
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		if k.cycle() {
			k.follow()
		}
	})
}

// cycle reports whether to go on.
func (k *keeper) cycle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return false
	}
	if k.forced { // it says nothing about the work
		k.forced = false
		k.pace.cycled = k.read()
	} else {
		k.pace.cycle(k.read())
	}
	k.apply()
	k.timer.Reset(look)
	return true
}

// look decides whether the process works, and at rest what is to be collected or freed.
func (k *keeper) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	now := k.read()
	if k.pace.look(now) {
		k.apply()
		k.left = true
	}
	switch {
	case k.left && k.pace.began.IsZero() && now.at.Sub(k.freed) >= apart:
		k.left, k.freed = false, now.at
		if k.applied != 0 {
			k.forced = true
			k.free()
		}
		giveBackProgram()
	case k.applied != 0 && k.pace.full(now):
		k.collect()
	}
	k.timer.Reset(look)
}

func (k *keeper) apply() {
	if k.applied != 0 {
		k.set(k.pace.growth())
	}
}

func (k *keeper) set(growth int) {
	if k.applied != growth {
		debug.SetGCPercent(growth)
		k.applied = growth
	}
}

func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.timer.Stop()
	if k.applied != 0 {
		k.set(leastGrowth)
	}
}

func giveBackProgram() {
	if err := dropProgram(); err != nil {
		klog.Background().V(2).Info("The pages of the program were not given back", "err", err)
	}
}
