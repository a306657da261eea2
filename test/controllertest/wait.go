package controllertest

import (
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
	Eventually(t, "the queues are empty", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, loop := range e.loops {
			if !idle(loop.Inspect()) {
				return false
			}
		}
		return true
	})
}

func idle(loop controller.LoopStatus) bool {
	return !loop.Began.IsZero() && loop.Depth == 0 && len(loop.InFlight) == 0
}
