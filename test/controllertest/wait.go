package controllertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/await"
)

// patience bounds the waits for what controllers do.
const patience = 30 * time.Second

// Eventually waits for something that happens on another goroutine.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	await.True(t, what, done)
}

// EventuallyAsTimePasses is Eventually for what also takes time of the controller, whose
// clock moves on by step before each new look.
func (e *Env) EventuallyAsTimePasses(t testing.TB, what string, step time.Duration, done func() bool) {
	t.Helper()
	Eventually(t, what, func() bool {
		if done() {
			return true
		}
		e.Clock.Step(step)
		return false
	})
}

// AwaitIdle waits until the loops of the controller have nothing to do: they work, no key
// waits, and none is worked on. Keys that are delayed do not count.
func (e *Env) AwaitIdle(t testing.TB) {
	t.Helper()
	Eventually(t, "the queues are empty", e.Idle)
}

// Idle reports whether the loops of the controller had nothing to do at one moment during the call, see AwaitIdle.
func (e *Env) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, loop := range e.loops {
		if !idle(loop.Inspect()) {
			return false
		}
	}
	// A key may be on its way from one loop to another, or from a queue to its worker, and be seen in neither.
	// What is done is counted before what was queued is: in the other order, a key that is queued in between
	// would make up for one that is worked on.
	var queued, done uint64
	for _, loop := range e.loops {
		done += countsOf(loop).done
	}
	for _, loop := range e.loops {
		queued += countsOf(loop).queued
	}
	return done == queued
}

// counts are the numbers of the keys that a loop has queued and that it is done with. Only those of work queues have
// any.
type counts struct{ queued, done uint64 }

func countsOf(loop controller.Inspectable) counts {
	var c counts
	if counting, ok := loop.(interface{ Counts() (queued, done uint64) }); ok {
		c.queued, c.done = counting.Counts()
	}
	return c
}

// Loops are the loops of the controller, in the order in which it made them.
func (e *Env) Loops() []controller.LoopStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []controller.LoopStatus
	for _, loop := range e.loops {
		all = append(all, loop.Inspect())
	}
	return all
}

// WantWaitsFor runs a controller whose informers have not been started, and wants its loops to
// begin once a resource can be listed, and not before.
func (e *Env) WantWaitsFor(t testing.TB, c controller.Controller, resource string) {
	t.Helper()
	var refused atomic.Bool
	allow := e.RefuseIf("list "+resource, errors.New("not yet"), func(int) bool {
		refused.Store(true)
		return true
	})
	e.Informers.StartWithContext(e.ctx)
	e.Run(t, c)
	Eventually(t, "a list of "+resource+" has failed", refused.Load)
	began := func(loop controller.LoopStatus) bool { return !loop.Began.IsZero() }
	await.Stays(t, "no loop begins", 50*time.Millisecond, func(context.Context) error {
		if i := slices.IndexFunc(e.Loops(), began); i >= 0 {
			return fmt.Errorf("%s has begun", e.Loops()[i].Queue)
		}
		return nil
	})
	allow()
	Eventually(t, "the loops begin", func() bool { return slices.ContainsFunc(e.Loops(), began) })
}

// WantIdleFor wants a controller to do nothing for a reason that its status tells.
func (e *Env) WantIdleFor(t testing.TB, c controller.Controller, reason string) {
	t.Helper()
	e.Start(t)
	stop := e.Run(t, c)
	Eventually(t, "the status says why", func() bool { return e.Loops()[0].LastError == reason })
	stop()
	if writes := e.WriteVerbs(); len(writes) > 0 {
		t.Errorf("it has sent %q", writes)
	}
}

func idle(loop controller.LoopStatus) bool {
	return !loop.Began.IsZero() && loop.Depth == 0 && len(loop.InFlight) == 0
}

// LongestDelay returns how long the last of the delayed keys still waits, 0 if none is delayed.
func (e *Env) LongestDelay(keys []controller.LoopKey) time.Duration {
	var longest time.Duration
	for _, key := range keys {
		if key.State == controller.KeyDelayed {
			longest = max(longest, key.Until.Sub(e.Clock.Now()))
		}
	}
	return longest
}
