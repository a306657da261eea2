package loop

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Watchdog shows whether a loop makes progress. Everything a loop does is bounded in time, so
// a loop that works on one thing for much longer is stuck permanently: then only a new
// process helps. It can be used by several goroutines.
type Watchdog struct {
	clock clock.PassiveClock

	mu    sync.Mutex // guards what follows
	doing string
	since time.Time
}

// NewWatchdog makes one for a loop that does nothing yet.
func NewWatchdog(clk clock.PassiveClock) *Watchdog { return &Watchdog{clock: clk} }

// Begin notes what is being done until the function it returns is called.
func (w *Watchdog) Begin(what string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	doing, since := w.doing, w.since
	w.doing, w.since = what, w.clock.Now()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.doing, w.since = doing, since
	}
}

// Check fails if one thing has been done for longer than the limit.
func (w *Watchdog) Check(limit time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.doing == "" {
		return nil
	}
	if took := w.clock.Since(w.since); took > limit {
		return fmt.Errorf("%s has not completed for %v", w.doing, took.Round(time.Second))
	}
	return nil
}
