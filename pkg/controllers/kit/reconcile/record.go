package reconcile

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/concurrent"
	"kcmd.dev/pkg/controllers/kit/controller"
)

// record keeps what can be asked of a loop while it runs.
type record[K comparable] struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	inFlight map[K]time.Time
	status   controller.LoopStatus
}

func newRecord[K comparable](c clock.PassiveClock) *record[K] {
	return &record[K]{clock: c, inFlight: map[K]time.Time{}}
}

func (r *record[K]) begin(key K) time.Time {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.FirstReconcile.IsZero() {
		r.status.FirstReconcile = now
	}
	r.inFlight[key] = now
	return now
}

func (r *record[K]) end(key K, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inFlight, key)
	r.status.Reconciled++
	if err == nil || IsRequeue(err) {
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

// ages returns the time spent so far on all keys in flight, and on the slowest of them.
func (r *record[K]) ages() (sum, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, since := range r.inFlight {
		age := r.clock.Since(since)
		sum += age
		longest = max(longest, age)
	}
	return sum, longest
}

// Inspect implements controller.Inspectable.
func (l *Loop[K]) Inspect() controller.LoopStatus {
	l.record.mu.Lock()
	s := l.record.status
	for key, since := range l.record.inFlight {
		s.InFlight = append(s.InFlight, controller.InFlight{Key: fmt.Sprint(key), Since: since})
	}
	l.record.mu.Unlock()

	sort.Slice(s.InFlight, func(i, j int) bool { return s.InFlight[i].Since.Before(s.InFlight[j].Since) })
	s.Queue, s.Workers = l.options.Queue, l.options.Workers
	s.Depth, s.Backlog = l.lanes.depths()
	return s
}
