package controllertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Queue records what a controller queues, in place of the loop that would work on it. A key is
// printed as "key", "backlog key", "key in 10s" or "backlog key in 10s".
type Queue[K comparable] struct {
	// Namespace is that of keys of which only the name is printed, none if empty.
	Namespace string

	mu     sync.Mutex
	queued []queued[K]
}

type queued[K comparable] struct {
	key     K
	lane    reconcile.Lane
	delayed bool
	delay   time.Duration
}

// Enqueue records a key in a lane.
func (q *Queue[K]) Enqueue(lane reconcile.Lane, key K) { q.record(queued[K]{key: key, lane: lane}) }

// Add records a key in the fresh lane.
func (q *Queue[K]) Add(key K) { q.record(queued[K]{key: key}) }

// AddAfter records a key that is delayed.
func (q *Queue[K]) AddAfter(key K, delay time.Duration) {
	q.record(queued[K]{key: key, delayed: true, delay: delay})
}

// EnqueueAfter records a key that is delayed, if there is a delay.
func (q *Queue[K]) EnqueueAfter(lane reconcile.Lane, key K, delay time.Duration) {
	q.record(queued[K]{key: key, lane: lane, delayed: delay > 0, delay: delay})
}

// Take returns what was queued since it was called last, in order.
func (q *Queue[K]) Take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []string
	for _, entry := range q.queued {
		all = append(all, q.print(entry))
	}
	q.queued = nil
	return all
}

// Clear forgets what was queued. It is for benchmarks: it costs nothing.
func (q *Queue[K]) Clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued = q.queued[:0]
}

// TakeDelay takes only what was delayed of a key, and returns the last delay, 0 if there was
// none.
func (q *Queue[K]) TakeDelay(key K) (delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued = slices.DeleteFunc(q.queued, func(entry queued[K]) bool {
		if !entry.delayed || entry.key != key {
			return false
		}
		delay = entry.delay
		return true
	})
	return delay
}

// Want takes what was queued since the last time, which has to be this, in order.
func (q *Queue[K]) Want(t testing.TB, want ...string) {
	t.Helper()
	if got := q.Take(); !slices.Equal(got, want) {
		t.Errorf("queued %q, want %q", got, want)
	}
}

// WantInAnyOrder is Want where order is of no matter.
func (q *Queue[K]) WantInAnyOrder(t testing.TB, want ...string) {
	t.Helper()
	got := slices.Sorted(slices.Values(q.Take()))
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		t.Errorf("queued %q, want %q in any order", got, want)
	}
}

func (q *Queue[K]) print(entry queued[K]) string {
	var text string
	if named, ok := any(entry.key).(types.NamespacedName); ok && q.Namespace != "" && named.Namespace == q.Namespace {
		text = named.Name
	} else {
		text = fmt.Sprint(entry.key)
	}
	if entry.lane.IsBacklog() {
		text = "backlog " + text
	}
	if entry.delayed {
		text = fmt.Sprintf("%s in %v", text, entry.delay)
	}
	return text
}

func (q *Queue[K]) record(entry queued[K]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued = append(q.queued, entry)
}
