package supervisor

import (
	"context"
	"fmt"
	"net/http"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
)

// How long a controller may take to answer. None of it does more than a bounded amount of
// work in memory, so these are far more than what is needed; after them a lock was left
// held, or a file is on a disk that does not answer.
const (
	buildLimit    = 30 * time.Second
	handOverLimit = 5 * time.Second
	inspectLimit  = time.Second
)

// outcome is the outcome of a call.
type outcome[T any] struct {
	value    T
	panicked *concurrent.PanicError
}

// attempt calls code of a controller in a goroutine of its own, labelled with the name of the
// controller. A panic is an error, and so is a call that takes longer than the limit: the
// call is then abandoned, and late receives what it returns eventually.
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
		return o.value, fmt.Errorf("%s: no response within %v", what, limit)
	case o.panicked != nil:
		return o.value, fmt.Errorf("%s: %w", what, o.panicked)
	}
	return o.value, nil
}

// within receives from a channel, and reports whether a value came in time.
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

// view is the last inspection of the loops of an instance. There is one inspection at a time,
// so that an instance that does not respond costs one goroutine, however often it is asked.
type view struct {
	turn  chan struct{} // holds a value during an inspection
	made  time.Time
	since atomic.Int64 // when that began, in nanoseconds since made; 0 if there is none
}

func newView(now time.Time) *view { return &view{turn: make(chan struct{}, 1), made: now.Add(-1)} }

// began returns when the inspection that is under way began, and whether there is one. The wall clock can be set
// meanwhile.
func (v *view) began() (time.Time, bool) {
	since := v.since.Load()
	return v.made.Add(time.Duration(since)), since != 0
}

// loops returns the work loops of an instance, none if it does not respond.
func (u *unit) loops(r *running) []controller.LoopStatus { return inspect(u, r, r.Loops) }

// inspect asks an instance about its work loops. It returns nothing if the instance does not
// respond.
func inspect[T any](u *unit, r *running, ask func() T) (none T) {
	timer := u.options.Clock.NewTimer(inspectLimit)
	defer timer.Stop()
	select {
	case r.view.turn <- struct{}{}:
	case <-timer.C():
		return none
	}
	r.view.since.Store(int64(u.options.Clock.Since(r.view.made)))
	over := func() {
		r.view.since.Store(0)
		<-r.view.turn
	}
	answer, err := attempt(u, "inspecting the loops", inspectLimit, func() T {
		defer over()
		return ask()
	}, nil)
	if err != nil {
		klog.FromContext(u.ctx).Error(err, "The work loops of a controller cannot be inspected")
	}
	return answer
}

// debuggingHandler returns the debugging handler of an instance. The server recovers a panic
// in a page.
func (u *unit) debuggingHandler(r *running) http.Handler {
	handler, err := attempt(u, "getting the debugging handler", inspectLimit, r.DebuggingHandler, nil)
	if err == nil {
		return handler
	}
	klog.FromContext(u.ctx).Error(err, "The debugging handler of a controller is not available")
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the controller does not respond, see the log", http.StatusInternalServerError)
	})
}

// unanswered returns how long an instance has not responded to an inspection; 0 if it has.
func (u *unit) unanswered(r *running) time.Duration {
	began, underWay := r.view.began()
	if !underWay {
		return 0
	}
	return u.options.Clock.Since(began)
}
