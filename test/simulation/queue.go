package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Queue is the work queue of a world. Whatever the reason, a key that failed is retried after 20 ms, doubled up to
// 10 s.
type Queue[K comparable] struct {
	// AnyOrder has keys taken in any order, instead of that in which they were added.
	AnyOrder bool

	w        *World
	work     func(context.Context, K) error
	failures map[K]int

	mu    sync.Mutex // keys are also added by concurrent requests
	now   []K
	later map[K]time.Time
}

// NewQueue makes a queue whose keys are worked on by a function.
func NewQueue[K comparable](w *World, work func(context.Context, K) error) *Queue[K] {
	return &Queue[K]{w: w, work: work, later: map[K]time.Time{}, failures: map[K]int{}}
}

// NewPasses makes a queue for a controller that makes passes: the first after a time, and each other one so long after
// the end of the one before.
func NewPasses(w *World, first, period time.Duration, pass func(context.Context)) *Queue[string] {
	var passes *Queue[string]
	passes = NewQueue(w, func(ctx context.Context, key string) error {
		pass(ctx)
		passes.AddAfter(key, period)
		return nil
	})
	passes.AddAfter("pass", first)
	return passes
}

// Add implements reconcile.Queue.
func (q *Queue[K]) Add(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(key)
}

func (q *Queue[K]) add(key K) {
	if !slices.Contains(q.now, key) {
		q.now = append(q.now, key)
	}
}

// Enqueue implements reconcile.Queue.
func (q *Queue[K]) Enqueue(_ reconcile.Lane, key K) { q.Add(key) }

// AddAfter implements reconcile.Queue.
func (q *Queue[K]) AddAfter(key K, delay time.Duration) {
	if delay <= 0 {
		q.Add(key)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	due := q.w.Clock.Now().Add(delay)
	if at, ok := q.later[key]; !ok || due.Before(at) {
		q.later[key] = due
	}
}

// EnqueueAfter implements reconcile.Queue.
func (q *Queue[K]) EnqueueAfter(_ reconcile.Lane, key K, delay time.Duration) { q.AddAfter(key, delay) }

// Work works on a key of the queue, and reports whether one was ready.
func (q *Queue[K]) Work() bool {
	if !q.ready() {
		return false
	}
	q.run(q.w.Context())
	return true
}

// promote adds the keys that are due, and returns how many are to be reconciled.
func (q *Queue[K]) promote() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	var due []K
	for key, at := range q.later {
		if !at.After(q.w.Clock.Now()) {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, func(a, b K) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, key := range due {
		delete(q.later, key)
		q.add(key)
	}
	return len(q.now)
}

func (q *Queue[K]) ready() bool { return q.promote() > 0 }

func (q *Queue[K]) next() (next time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, at := range q.later {
		if !ok || at.Before(next) {
			next, ok = at, true
		}
	}
	return next, ok
}

// shuffle moves a random key to the front, whatever the order in which they were added.
func (q *Queue[K]) shuffle() {
	slices.SortFunc(q.now, func(a, b K) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	n := q.w.Rand.IntN(len(q.now))
	q.now[0], q.now[n] = q.now[n], q.now[0]
}

// take removes a key that is to be reconciled.
func (q *Queue[K]) take() K {
	q.promote()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.AnyOrder {
		q.shuffle()
	}
	key := q.now[0]
	q.now = q.now[1:]
	return key
}

func (q *Queue[K]) run(ctx context.Context) {
	key := q.take()
	err := q.work(ctx, key)
	q.w.log("reconciled %v: %v", key, err)
	if err == nil {
		delete(q.failures, key)
		return
	}
	q.failures[key]++
	q.AddAfter(key, min(10*time.Second, 10*time.Millisecond<<min(q.failures[key], 12)))
}
