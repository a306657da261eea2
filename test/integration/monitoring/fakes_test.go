package monitoring

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// fake takes the place of the deployment controller. It has a work queue with one worker.
type fake struct {
	// broken has it panic when it runs.
	broken atomic.Bool
	// release ends the work on its first key.
	release chan struct{}
	loop    atomic.Pointer[reconcile.Loop[string]]
}

func newFake() *fake { return &fake{release: make(chan struct{})} }

var errFake = errors.New("a fake failure")

// descriptors are all controllers, but for the one whose place it takes.
func (f *fake) descriptors() []controller.Descriptor {
	all := controllers.All()
	for n, d := range all {
		if d.Name == deployment {
			all[n] = controller.Describe(controller.Descriptor{Name: deployment, ServiceAccount: "monitoring-fake", EventSource: "monitoring-fake"},
				func(c *controller.Config) int32 { return *c.Controllers.Deployment.ConcurrentSyncs }, f.build)
		}
	}
	return all
}

func (f *fake) build(env controller.Env, _ int32) (controller.Controller, error) {
	loop := reconcile.New(env, reconcile.Options[string]{Queue: "deployment", Workers: 1}, f.work)
	f.loop.Store(loop)
	return running(func(ctx context.Context) error {
		if f.broken.Load() {
			panic(errFake)
		}
		return loop.Run(ctx)
	}), nil
}

// work waits until it is released.
func (f *fake) work(ctx context.Context, _ string) error {
	select {
	case <-f.release:
	case <-ctx.Done():
	}
	return nil
}

// add adds keys to its queue.
func (f *fake) add(count int) {
	loop := f.loop.Load()
	for n := range count {
		loop.Add(strconv.Itoa(n))
	}
}

// running is a controller that only has a Run.
type running func(context.Context) error

func (r running) Run(ctx context.Context) error { return r(ctx) }

// jumpingClock is the real clock, which can be put forward.
type jumpingClock struct {
	clock.RealClock
	by atomic.Int64
}

func (c *jumpingClock) jump(d time.Duration) { c.by.Add(int64(d)) }

func (c *jumpingClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.by.Load())) }

func (c *jumpingClock) Since(at time.Time) time.Duration { return c.Now().Sub(at) }
