package simulation

import (
	"context"
	"testing"
	"time"

	"kcmd.dev/pkg/controller"
)

// ticking counts the minutes while it runs.
type ticking struct{ minutes int }

func (c *ticking) Run(ctx context.Context) error {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.minutes++
		case <-ctx.Done():
			return nil
		}
	}
}

func TestTimersOfAControllerFollowTheClockOfTheWorld(t *testing.T) {
	RunInBubbles(t, 2, func(t *testing.T, w *World) {
		c := &ticking{}
		running := RunFree(w, w.Env.Env, func(controller.Env) controller.Controller { return c })
		w.Pass(90 * time.Second)
		w.Pass(90 * time.Second)
		if c.minutes != 3 {
			t.Errorf("it has counted %d minutes", c.minutes)
		}
		running.Stop()
		w.Pass(time.Hour)
		if c.minutes != 3 {
			t.Errorf("it went on after the stop: %d minutes", c.minutes)
		}
	})
}
