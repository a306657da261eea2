package footprint

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// busy is the time between two cycles of the collector below which the process works, quiet the time
	// without one after which it is at rest. Without need, the collector runs every two minutes.
	busy  = 2 * time.Second
	quiet = 3 * time.Second
	// often and seldom are the times between two cycles, at rest, below and above which the heap may grow
	// more, or less.
	often  = 10 * time.Second
	seldom = 30 * time.Second

	// Percentages of what is alive by which the heap may grow until the next cycle.
	mostGrowth  = 100
	leastGrowth = 40
	step        = 20
)

// pace decides how much the heap may grow.
type pace struct {
	last   time.Time // of the cycles
	atRest bool
	growth int
}

func newPace(now time.Time) pace { return pace{last: now, growth: mostGrowth} }

// cycle is called after each cycle.
func (p *pace) cycle(now time.Time) {
	apart := now.Sub(p.last)
	p.last = now
	switch {
	case apart < busy:
		p.atRest, p.growth = false, mostGrowth
	case !p.atRest:
	case apart < often:
		p.growth = min(p.growth+step, mostGrowth)
	case apart > seldom:
		p.growth = max(p.growth-step, leastGrowth)
	}
}

// rest is called when there was no cycle for a while. It reports whether the process worked before.
func (p *pace) rest() bool {
	if p.atRest {
		return false
	}
	p.atRest, p.growth = true, leastGrowth
	return true
}

// keeper applies what a pace decides.
type keeper struct {
	mu      sync.Mutex
	pace    pace
	applied int // the percentage that is set; 0 if the collector is left alone
	quiet   *time.Timer
	stopped bool
}

// Keep follows the rules of this package until the returned function is called.
func Keep() (stop func()) {
	k := newKeeper(os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "")
	giveBackProgram()
	k.follow()
	return k.stop
}

func newKeeper(sets bool) *keeper {
	k := &keeper{pace: newPace(time.Now())}
	if sets {
		k.applied = mostGrowth
	}
	k.quiet = time.AfterFunc(quiet, k.rest)
	return k
}

// sentinel is garbage as soon as it is made. Its finalizer runs after the next cycle.
type sentinel struct{ _ *sentinel }

// follow has the next cycle noticed, and those after it.
func (k *keeper) follow() {
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		if k.cycle(time.Now()) {
			k.follow()
		}
	})
}

// cycle reports whether to go on.
func (k *keeper) cycle(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return false
	}
	k.pace.cycle(now)
	k.apply()
	k.quiet.Reset(quiet)
	return true
}

func (k *keeper) rest() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped || !k.pace.rest() {
		return
	}
	k.apply()
	giveBackProgram()
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
	k.quiet.Stop()
	k.pace.growth = mostGrowth
	k.apply()
}

func giveBackProgram() {
	if err := dropProgram(); err != nil {
		klog.Background().V(2).Info("The pages of the program were not given back", "err", err)
	}
}
