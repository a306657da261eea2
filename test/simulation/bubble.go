package simulation

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"kcmd.dev/pkg/controller"
)

// RunInBubbles is Run for a controller that has goroutines and timers of its own. Each history is in a synctest bubble,
// whose time passes with that of the world, and whatever happens waits until the goroutines rest.
func RunInBubbles(t *testing.T, seeds uint64, test func(t *testing.T, w *World)) {
	t.Helper()
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // one of them sleeps until the time that another bubble has come to
	defer func() { utilruntime.ErrorHandlers = handlers }()
	if *seedCount > 0 {
		seeds = *seedCount
	}
	for seed := *firstSeed; seed < *firstSeed+seeds; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				oneHistory(t, seed, func(t *testing.T, w *World) {
					began, ahead := time.Now(), w.Clock.Now()
					w.Rest = func() {
						synctest.Wait()
						w.Fake.Lock() // so that what a timer wakes up sees what happened before
						now := w.Clock.Since(ahead)
						w.Fake.Unlock()
						time.Sleep(now - time.Since(began))
						synctest.Wait()
					}
					test(t, w)
				})
			})
		})
	}
}

// Pass lets time pass, for a controller that has timers of its own.
func (w *World) Pass(d time.Duration) {
	w.Clock.Step(d)
	w.rest()
}

// Running is a controller that runs in goroutines of its own, in a bubble.
type Running struct {
	end   context.CancelFunc
	ended chan struct{}
	fence chan struct{}
}

// RunFree runs a controller that made makes in goroutines of its own.
func RunFree(w *World, env controller.Env, made func(controller.Env) controller.Controller) *Running {
	r := &Running{ended: make(chan struct{}), fence: make(chan struct{})}
	env.Fenced = r.fence
	c := made(env)
	ctx, end := context.WithCancel(w.Context())
	r.end = end
	go func() {
		defer close(r.ended)
		if err := c.Run(ctx); err != nil {
			w.t.Errorf("Run = %v", err)
		}
	}()
	w.rest()
	return r
}

// Stop stops it, and waits until it has ended.
func (r *Running) Stop() {
	r.end()
	<-r.ended
}

// Kill is Stop, but what is under way is cut off.
func (r *Running) Kill() {
	close(r.fence)
	r.Stop()
}
