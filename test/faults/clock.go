package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
)

// leapingClock is the real clock, put forward by a scenario when it likes. What waits for a time that is past then,
// waits no longer. Tickers go on at their pace.
type leapingClock struct {
	clock.RealClock

	mu     sync.Mutex
	ahead  time.Duration
	leapt  time.Time // by the real clock
	timers map[*leapingTimer]bool
}

func newLeapingClock() *leapingClock { return &leapingClock{timers: map[*leapingTimer]bool{}} }

// Now implements clock.PassiveClock.
func (c *leapingClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

// Since implements clock.PassiveClock.
func (c *leapingClock) Since(at time.Time) time.Duration { return c.Now().Sub(at) }

// After implements clock.Clock.
func (c *leapingClock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

// Sleep implements clock.Clock.
func (c *leapingClock) Sleep(d time.Duration) { <-c.After(d) }

// NewTimer implements clock.Clock.
func (c *leapingClock) NewTimer(d time.Duration) clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &leapingTimer{clock: c, real: time.NewTimer(d), until: time.Now().Add(d)}
	c.timers[t] = true
	return t
}

// leap puts the clock forward.
func (c *leapingClock) leap(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leapt = time.Now()
	c.ahead += d
	for t := range c.timers {
		if !t.until.After(c.leapt) { // it has fired, or is about to
			delete(c.timers, t)
			continue
		}
		t.until = t.until.Add(-d)
		t.real.Reset(time.Until(t.until)) // nothing has been sent, since it was not time
	}
}

// lately reports whether the clock was put forward within a time.
func (c *leapingClock) lately(within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.leapt) < within
}

// leapingTimer is a timer of a leapingClock.
type leapingTimer struct {
	clock *leapingClock
	real  *time.Timer
	until time.Time // by the real clock
}

// C implements clock.Timer.
func (t *leapingTimer) C() <-chan time.Time { return t.real.C }

// Stop implements clock.Timer.
func (t *leapingTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
	return t.real.Stop()
}

// Reset implements clock.Timer.
func (t *leapingTimer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.until = time.Now().Add(d)
	t.clock.timers[t] = true
	return t.real.Reset(d)
}

// postpone has the clock count as put forward just now.
func (c *leapingClock) postpone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leapt = time.Now()
}

// Pass puts the clock of the controllers forward when they run: a manager that does something else just then gives
// up, since it takes minutes or days.
func Pass(d time.Duration) Action {
	return func(ctx context.Context, w *world) error {
		if err := await.Nil(ctx, patience, w.settled); err != nil {
			return fmt.Errorf("waiting until controllers run: %w", err)
		}
		w.clock.leap(d)
		return nil
	}
}

// pace is how much real time there is at least between two leaps of the clock.
const pace = time.Second

// InTime is that a condition holds once some more time has passed: what has failed is tried again in the next pass,
// minutes or days later. The clock is put forward by a period again and again until it does. A lease may end by that,
// after which controllers get the time to run again.
func InTime(period time.Duration, condition Condition) Condition {
	return func(ctx context.Context, w *world) error {
		err := condition(ctx, w)
		switch {
		case err == nil || w.clock.lately(pace):
		case w.settled(ctx) != nil:
			w.clock.postpone()
		default:
			w.clock.leap(period)
		}
		return err
	}
}

// settled is nil if a manager leads that does nothing but run controllers, and no fault is just being injected.
func (w *world) settled(ctx context.Context) error {
	if n := w.faults.Load(); n > 0 {
		return fmt.Errorf("%d faults are being injected", n)
	}
	leader, err := w.leader(ctx)
	if err != nil {
		return err
	}
	status, err := leader.Status(ctx)
	if err != nil {
		return err
	}
	var running bool
	for _, c := range status.Controllers {
		switch {
		case c.Pending || c.State == supervisor.Stopping:
			return fmt.Errorf("%s is %s", c.Name, c.State)
		case c.State == supervisor.Running:
			running = true
		}
	}
	if !running {
		return errors.New("no controller runs")
	}
	return harness.LoopsBegan(&status)
}
