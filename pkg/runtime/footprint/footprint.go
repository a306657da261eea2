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
	// busy and idle are how far apart two cycles of the collector are while there is much to do, and while
	// there is little. At rest, the collector runs every two minutes without need.
	busy = 2 * time.Second
	idle = 10 * time.Second

	// Percentages of what is alive by which the heap may grow before the next cycle.
	mostGrowth  = 100
	leastGrowth = 40
	step        = 20
)

// pace follows the cycles of the collector. The zero value has seen none.
type pace struct {
	last   time.Time
	growth int
	atRest bool
}

// cycle is called after each cycle. It returns the growth to allow from now on, and whether the process
// has just come to rest.
func (p *pace) cycle(now time.Time) (growth int, rests bool) {
	if p.last.IsZero() {
		p.last, p.growth = now, mostGrowth
		return p.growth, false
	}
	apart := now.Sub(p.last)
	p.last = now
	switch {
	case apart < busy:
		p.growth, p.atRest = mostGrowth, false
	case apart > idle:
		p.growth, rests = max(leastGrowth, p.growth-step), !p.atRest
		p.atRest = true
	}
	return p.growth, rests
}

// keeper applies what a pace says.
type keeper struct {
	mu      sync.Mutex
	pace    pace
	applied int // percentage; 0 if the collector is left alone
	stopped bool
}

// Keep follows the rules of this package until the returned function is called.
func Keep() (stop func()) {
	k := &keeper{}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		k.applied = mostGrowth
	}
	giveBackProgram()
	k.follow()
	return k.stop
}

// sentinel is garbage as soon as it is made. Its finalizer runs after the next cycle.
type sentinel struct{ _ *sentinel }

// follow has the next cycle noticed.
func (k *keeper) follow() {
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		if k.cycle(time.Now()) {
			k.follow()
		}
	})
}

// cycle reports whether to follow the next cycle, too.
func (k *keeper) cycle(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return false
	}
	growth, rests := k.pace.cycle(now)
	if k.applied != 0 && growth != k.applied {
		debug.SetGCPercent(growth)
		k.applied = growth
	}
	if rests {
		giveBackProgram()
	}
	return true
}

func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	if k.applied != 0 && k.applied != mostGrowth {
		debug.SetGCPercent(mostGrowth)
	}
}

func giveBackProgram() {
	if err := dropProgram(); err != nil {
		klog.Background().V(2).Info("The pages of the program were not given back", "err", err)
	}
}
