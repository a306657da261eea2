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

// retry repeats a proof that failed, in the background and with a delay that doubles. When it
// succeeds, the loop makes the change as if it had just arrived. The loop owns it.
type retry struct {
	cancel context.CancelFunc // nil while nothing is waited for
}

// waits reports whether a proof is repeated until it succeeds.
func (w *retry) waits() bool { return w.cancel != nil }

// end stops waiting.
func (w *retry) end() {
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// retryLater replaces what is waited for by the proof that failed with err, if that is why it
// failed. what names the change, then makes it.
func (r *Runtime) retryLater(ctx context.Context, w *retry, err error, what string, then func(context.Context)) {
	w.end()
	var u *unproved
	if r.stopping || !errors.As(err, &u) {
		return
	}
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	r.tasks.Do(func(background context.Context) func() {
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
		// Replicas share files, so they would all ask at the same time.
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
