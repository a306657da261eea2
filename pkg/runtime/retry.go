package runtime

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"k8s.io/klog/v2"
)

// Delays between the proofs of a retry.
const (
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
)

// retry waits for what could not be proved. It asks in the background, with a delay that
// doubles, and reports nothing before a proof succeeds: then the loop makes the change as if
// it had just come. The loop owns it.
type retry struct {
	cancel context.CancelFunc // nil while nothing is waited for
}

// end gives up waiting.
func (w *retry) end() {
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// retryLater replaces what is waited for by what err says could not be proved, if it does.
// what names the change, then makes it.
func (r *Runtime) retryLater(ctx context.Context, w *retry, err error, what string, then func(context.Context)) {
	w.end()
	var u *unproved
	if r.stopping || !errors.As(err, &u) {
		return
	}
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	r.leadership.work(func(background context.Context) func() {
		stop := context.AfterFunc(background, cancel)
		defer stop()
		proved := r.untilProved(waiting, u.again)
		return func() {
			if !proved || waiting.Err() != nil {
				return
			}
			klog.FromContext(ctx).Info("The API server can be relied on now, trying again", "what", what)
			then(ctx)
		}
	})
}

// untilProved reports whether a proof succeeded before ctx ended.
func (r *Runtime) untilProved(ctx context.Context, prove func(context.Context) error) bool {
	for delay := firstRetry; ; delay = min(2*delay, longestRetry) {
		// Replicas share files: they need not ask in step.
		timer := r.options.Clock.NewTimer(delay + rand.N(delay/4))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		if prove(ctx) == nil {
			return true
		}
	}
}
