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
	// look is how long after the last cycle of the collector it is decided whether the process works.
	look = 3 * time.Second
	// working is how many bytes a process that works allocates in a second, at least; lasting is how long
	// it does so until the heap may grow by room.
	working = 4 << 20
	lasting = 3 * time.Second
	room    = 48 << 20
	// apart is the least time between two times at which what the work has left is freed.
	apart = time.Minute
	// often and seldom are the times between two cycles, at rest, below and above which the heap may grow
	// more, or less. Without need, the collector runs every two minutes.
	often  = 10 * time.Second
	seldom = 30 * time.Second

	// Percentages of what is alive by which the heap may grow until the next cycle: at work, and at rest.
	workGrowth  = 100
	leastGrowth = 40
	step        = 20
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

// pace decides how much the heap may grow.
type pace struct {
	cycled, looked reading   // the last cycle, and the last look
	began          time.Time // of the work; zero at rest
	growth         int
}

func newPace(now reading) pace {
	return pace{cycled: now, looked: now, began: now.at, growth: workGrowth}
}

// cycle is called after each cycle.
func (p *pace) cycle(now reading) {
	passed := now.at.Sub(p.cycled.at)
	works := now.worksSince(p.cycled)
	p.cycled, p.looked = now, now
	switch {
	case works && p.began.IsZero():
		p.began, p.growth = now.at, workGrowth
	case works && now.at.Sub(p.began) >= lasting:
		p.growth = max(workGrowth, int(room*100/max(now.live, 1<<20)))
	case !p.began.IsZero():
		p.growth = workGrowth
	case passed < often:
		p.growth = min(p.growth+step, workGrowth)
	case passed > seldom:
		p.growth = max(p.growth-step, leastGrowth)
	}
}

// look is called when there was no cycle for a while. It reports whether the process has come to rest.
func (p *pace) look(now reading) bool {
	works := now.worksSince(p.looked)
	p.looked = now
	if works || p.began.IsZero() {
		return false
	}
	p.began, p.growth = time.Time{}, leastGrowth
	return true
}

// worksSince reports whether the process has worked since an earlier reading.
func (r reading) worksSince(earlier reading) bool {
	return float64(r.allocated-earlier.allocated) >= working*r.at.Sub(earlier.at).Seconds()
}

// keeper applies what a pace decides.
type keeper struct {
	mu      sync.Mutex
	pace    pace
	applied int // the percentage that is set; 0 if the collector is left alone
	read    func() reading
	free    func()    // collects the garbage, and gives the memory back
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
	k := &keeper{read: read, free: debug.FreeOSMemory, pace: newPace(read())}
	if sets {
		k.applied = workGrowth
	}
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
		return true
	}
	k.pace.cycle(k.read())
	k.apply()
	k.timer.Reset(look)
	return true
}

// look decides whether the process works, and looks again later if it does, or if something is to be freed then.
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
	wait := apart - now.at.Sub(k.freed)
	switch {
	case !k.pace.began.IsZero():
		k.timer.Reset(look)
	case !k.left:
	case wait > 0:
		k.timer.Reset(wait)
	default:
		k.left, k.freed = false, now.at
		if k.applied != 0 {
			k.forced = true
			k.free()
		}
		giveBackProgram()
	}
}

func (k *keeper) apply() {
	if k.applied != 0 && k.applied != k.pace.growth {
		debug.SetGCPercent(k.pace.growth)
		k.applied = k.pace.growth
	}
}

func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.timer.Stop()
	k.pace.growth = workGrowth
	k.apply()
}

func giveBackProgram() {
	if err := dropProgram(); err != nil {
		klog.Background().V(2).Info("The pages of the program were not given back", "err", err)
	}
}
