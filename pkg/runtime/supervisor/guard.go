package supervisor

import (
	"context"
	"fmt"
	"net/http"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/concurrent"
	"kcmd.dev/pkg/controllers/kit/controller"
)

// How long a controller may take to answer. None of it does more than a bounded amount of
// work in memory, so these are far more than what is needed; after them a lock was left
// held, or a file is on a disk that does not answer.
const (
	buildLimit    = 30 * time.Second
	handOverLimit = 5 * time.Second
	inspectLimit  = time.Second
)

// outcome is what became of a call.
type outcome[T any] struct {
	value    T
	panicked *concurrent.PanicError
}

// attempt calls what a controller has written, in a goroutine of its own that carries the
// name of the controller. A panic is an error, and so is a call that takes longer than the
// limit: it is left behind then, and late gets what it returns after all.
func attempt[T any](u *unit, what string, limit time.Duration, call func() T, late func(T)) (T, error) {
	done := make(chan outcome[T], 1)
	go pprof.Do(u.ctx, pprof.Labels("controller", u.d.Name), func(context.Context) {
		var o outcome[T]
		o.panicked = concurrent.Catch(func() { o.value = call() })
		done <- o
	})
	o, ok := within(u, done, limit)
	switch {
	case !ok:
		go func() {
			if o := <-done; o.panicked == nil && late != nil {
				late(o.value)
			}
		}()
		return o.value, fmt.Errorf("%s: no answer within %v", what, limit)
	case o.panicked != nil:
		return o.value, fmt.Errorf("%s: %w", what, o.panicked)
	}
	return o.value, nil
}

// within receives from a channel, and reports that it came in time.
func within[T any](u *unit, from <-chan T, limit time.Duration) (received T, ok bool) {
	timer := u.options.Clock.NewTimer(limit)
	defer timer.Stop()
	select {
	case received = <-from:
		return received, true
	case <-timer.C():
	}
	select {
	case received = <-from:
		return received, true
	default:
		return received, false
	}
}

// view is the last look at the loops of an instance. There is one look at a time, so that
// an instance that does not answer costs one goroutine, however often it is asked.
type view struct {
	turn  chan struct{} // holds a value during a look
	since atomic.Int64  // when that began, in nanoseconds; 0 if there is none
}

func newView() *view { return &view{turn: make(chan struct{}, 1)} }

// loops returns the work loops of an instance, none if it does not answer.
func (u *unit) loops(r *running) []controller.LoopStatus {
	timer := u.options.Clock.NewTimer(inspectLimit)
	defer timer.Stop()
	select {
	case r.view.turn <- struct{}{}:
	case <-timer.C():
		return nil
	}
	r.view.since.Store(u.options.Clock.Now().UnixNano())
	over := func() {
		r.view.since.Store(0)
		<-r.view.turn
	}
	loops, err := attempt(u, "looking at the loops", inspectLimit, func() []controller.LoopStatus {
		defer over()
		return r.Loops()
	}, nil)
	if err != nil {
		klog.FromContext(u.ctx).Error(err, "The work loops of a controller cannot be looked at")
	}
	return loops
}

// debuggingHandler is what an instance shows of itself. A page that panics is the business of
// the server, which recovers that.
func (u *unit) debuggingHandler(r *running) http.Handler {
	handler, err := attempt(u, "looking for what it shows of itself", inspectLimit, r.DebuggingHandler, nil)
	if err == nil {
		return handler
	}
	klog.FromContext(u.ctx).Error(err, "A controller cannot show itself")
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the controller does not answer, see the log", http.StatusInternalServerError)
	})
}

// unanswered is for how long an instance has not said what it does; 0 if it has.
func (u *unit) unanswered(r *running) time.Duration {
	since := r.view.since.Load()
	if since == 0 {
		return 0
	}
	return u.options.Clock.Since(time.Unix(0, since))
}
