package reconcile

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
)

// record keeps the status of a running loop.
type record[K comparable] struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	inFlight map[K]inFlight
	failing  map[K]failure // keys that are retried
	status   controller.LoopStatus
}

type inFlight struct {
	since   time.Time
	trigger trigger
}

// failure is why a key is retried.
type failure struct {
	err string
	at  time.Time
}

func newRecord[K comparable](c clock.PassiveClock) *record[K] {
	return &record[K]{clock: c, inFlight: map[K]inFlight{}, failing: map[K]failure{}}
}

func (r *record[K]) start(key K, why trigger) time.Time {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.FirstReconcile.IsZero() {
		r.status.FirstReconcile = now
	}
	r.inFlight[key] = inFlight{since: now, trigger: why}
	return now
}

// end notes the outcome of a reconcile. An error that causes a key to be dropped counts as a failure, even if it would
// otherwise be expected.
func (r *record[K]) end(key K, err error, dropped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inFlight, key)
	r.status.Reconciled++
	if err == nil {
		delete(r.failing, key)
	}
	if err == nil || !dropped && (IsExpected(err) || controller.IsPaused(err) || isStop(err)) {
		return
	}
	r.status.Failed++
	var panicked *concurrent.PanicError
	if errors.As(err, &panicked) {
		r.status.Panicked++
	}
	r.status.LastError = fmt.Sprintf("%v: %v", key, err)
	r.status.LastErrorTime = r.clock.Now()
}

// isStop reports whether nothing but the breaker for deletions made a reconcile fail.
func isStop(err error) bool {
	_, only := controller.StoppedIn(err)
	return only
}

// failed records why a key is retried.
func (r *record[K]) failed(key K, err error) {
	text := err.Error()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing[key] = failure{err: text, at: r.clock.Now()}
}

// ages returns the time spent so far on all keys in flight, and on the slowest of them.
func (r *record[K]) ages() (sum, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, now := range r.inFlight {
		age := r.clock.Since(now.since)
		sum += age
		longest = max(longest, age)
	}
	return sum, longest
}

// loopStarted records that the loop takes keys from now on.
func (r *record[K]) loopStarted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Began = r.clock.Now()
}
