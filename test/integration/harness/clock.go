package harness

import (
	"os"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

// haste is how much faster the clock of FastClock runs.
const haste = 8

// FastClock returns a clock that runs eight times as fast as the real one, for a manager
// whose controllers are tested for what they do after half a minute or more. All of their
// pauses keep their proportions. KCMD_REAL_CLOCK, with any value, makes it the real clock.
//
// Leases last by the same clock: leader election has to be off, see WithoutLease, or the lease
// eight times as long.
func FastClock() clock.WithTicker {
	if os.Getenv("KCMD_REAL_CLOCK") != "" {
		return clock.RealClock{}
	}
	return fastClock{start: time.Now()}
}

// WithoutLease turns leader election off.
func WithoutLease(c *manager.Config) {
	c.LeaderElection.LeaderElect = ptr.To(false)
}

// ShiftedClock returns the real clock, put forward, for a manager of which controllers are
// tested for what they do after days. Tokens of service accounts look expired to it: each
// request gets a new one.
func ShiftedClock(by time.Duration) clock.WithTicker { return shiftedClock{by: by} }

type shiftedClock struct {
	clock.RealClock
	by time.Duration
}

func (s shiftedClock) Now() time.Time { return s.RealClock.Now().Add(s.by) }

func (s shiftedClock) Since(at time.Time) time.Duration { return s.Now().Sub(at) }

type fastClock struct {
	clock.RealClock
	start time.Time
}

func (f fastClock) Now() time.Time { return f.start.Add(haste * time.Since(f.start)) }

func (f fastClock) Since(at time.Time) time.Duration { return f.Now().Sub(at) }

func (f fastClock) After(d time.Duration) <-chan time.Time { return f.RealClock.After(d / haste) }

func (f fastClock) Sleep(d time.Duration) { f.RealClock.Sleep(d / haste) }

func (f fastClock) NewTimer(d time.Duration) clock.Timer {
	return fastTimer{f.RealClock.NewTimer(d / haste)}
}

func (f fastClock) NewTicker(d time.Duration) clock.Ticker { return f.RealClock.NewTicker(d / haste) }

func (f fastClock) Tick(d time.Duration) <-chan time.Time { return f.NewTicker(d).C() }

// fastTimer is a timer that can be reset.
type fastTimer struct{ clock.Timer }

func (t fastTimer) Reset(d time.Duration) bool { return t.Timer.Reset(d / haste) }
