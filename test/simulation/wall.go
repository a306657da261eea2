package simulation

import (
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// Wall is the clock of a process that can be set, while its timers go on to measure the time that passes. Give it to an
// instance as its clock: queues have the clock of the world.
type Wall struct {
	*clocktesting.FakeClock
	// Ahead is how much it is ahead of the clock of the world.
	Ahead time.Duration
}

// NewWall returns a clock that is right.
func NewWall(w *World) *Wall { return &Wall{FakeClock: w.Clock} }

// Now implements clock.Clock.
func (c *Wall) Now() time.Time { return c.FakeClock.Now().Add(c.Ahead) }

// Since implements clock.Clock.
func (c *Wall) Since(at time.Time) time.Duration { return c.Now().Sub(at) }
