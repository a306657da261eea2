package reconcile

import "time"

// Queue is the part of a Loop that accepts keys. Event handlers are given no more than that, so that tests can record
// what they enqueue.
type Queue[K comparable] interface {
	// Add enqueues a key in the fresh lane.
	Add(key K)
	// Enqueue enqueues a key in a lane.
	Enqueue(lane Lane, key K)
	// AddAfter enqueues a key in the fresh lane once the delay has passed. A key that is already waiting keeps the
	// earlier time.
	AddAfter(key K, delay time.Duration)
	// EnqueueAfter does the same in a lane. A key that is already waiting for the fresh lane keeps that, too.
	EnqueueAfter(lane Lane, key K, delay time.Duration)
}

var _ Queue[string] = (*Loop[string])(nil)
