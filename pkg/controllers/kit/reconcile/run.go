package reconcile

import (
	"context"
	"errors"
	"time"

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
