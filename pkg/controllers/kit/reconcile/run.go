package reconcile

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
)

// Run runs a controller that consists of several parts, usually loops. It waits until the
// controller may act on its caches, see controller.Scope, calls begin, which may be nil, before
// the first key is processed, and then runs the parts concurrently until ctx ends. See
// concurrent.Run for what happens when one of them fails.
func Run(
	ctx context.Context, env controller.Env, begin func(context.Context) error, parts ...func(context.Context) error,
) error {
	if !env.Informers.WaitUntilReady(ctx) {
		return nil
	}
	if begin != nil {
		if err := begin(ctx); err != nil {
			return err
		}
	}
	return concurrent.Run(ctx, parts...)
}

// ReadyWithin waits until a controller may act on its caches, see controller.Scope, or until the limit has passed: for
// one that can do without some of them. It returns false if ctx ended first.
func ReadyWithin(ctx context.Context, env controller.Env, limit time.Duration) bool {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := env.Clock.NewTimer(limit)
	defer timer.Stop()
	wait := concurrent.Start(func() {
		select {
		case <-timer.C():
			klog.FromContext(ctx).Error(nil, "Timed out waiting for informers to sync, starting without them",
				"timeout", limit)
			cancel()
		case <-waiting.Done():
		}
	})
	env.Informers.WaitUntilReady(waiting)
	cancel()
	wait()
	return ctx.Err() == nil
}

// Passes returns the part, see Run, of a controller that examines everything periodically: at
// once, and then a period after the end of the previous pass. Once ctx has ended, a pass starts
// nothing more; what it has started it finishes under working, see WorkContext.
func Passes(
	env controller.Env, period time.Duration, pass func(ctx, working context.Context),
) func(context.Context) error {
	return func(ctx context.Context) error {
		working, finish := WorkContext(ctx, env.Fenced)
		defer finish()
		for {
			pass(ctx, working)
			timer := env.Clock.NewTimer(period)
			select {
			case <-timer.C():
			case <-ctx.Done():
				timer.Stop()
				return nil
			}
		}
	}
}

// WorkContext derives a context that survives the end of ctx, which is a request to stop, and
// ends when fenced is closed, which revokes the right to write. The returned function releases
// its resources and must be called after the work has ended.
func WorkContext(ctx context.Context, fenced <-chan struct{}) (context.Context, func()) {
	working, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})
	watched := concurrent.Start(func() {
		select {
		case <-fenced:
			cancel(errFenced)
		case <-done:
		}
	})
	return working, func() {
		close(done)
		watched()
		cancel(nil)
	}
}

var errFenced = errors.New("the instance may no longer write")
