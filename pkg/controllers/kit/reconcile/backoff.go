package reconcile

import (
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// The delays of client-go's default for controllers.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 1000 * time.Second
)

// DefaultBackoff is that of a Loop whose Options have none: Backoff from 5 ms to 1000 s.
func DefaultBackoff[K comparable]() workqueue.TypedRateLimiter[K] {
	return Backoff[K](firstRetry, lastRetry)
}

// Backoff delays failed keys by first, doubled with each failure of the key up to last. After the
// first 100 keys it also lets only 10 keys per second pass, but delays no key by more than maxTurn
// because of that.
func Backoff[K comparable](first, last time.Duration) workqueue.TypedRateLimiter[K] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](first, last),
		&turns[K]{bucket: rate.NewLimiter(10, 100)},
	)
}

// maxTurn is the longest time that a key waits because others fail. It keeps the failures of one tenant, however many,
// from delaying the keys of another for hours.
const maxTurn = 30 * time.Second

// turns limits the rate of all keys together. Unlike workqueue.TypedBucketRateLimiter it does not reserve tokens that
// are more than maxTurn away, so the debt of the bucket is bounded.
type turns[K comparable] struct {
	mu     sync.Mutex // a cancelled reservation is given back in full only if none followed it
	bucket *rate.Limiter
}

// When implements workqueue.TypedRateLimiter.
func (t *turns[K]) When(K) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	turn := t.bucket.ReserveN(now, 1)
	delay := turn.DelayFrom(now)
	if delay <= maxTurn {
		return delay
	}
	turn.CancelAt(now)
	return maxTurn/2 + rand.N(maxTurn/2) // so that those that are cut off do not come back together
}

// NumRequeues implements workqueue.TypedRateLimiter.
func (t *turns[K]) NumRequeues(K) int { return 0 }

// Forget implements workqueue.TypedRateLimiter.
func (t *turns[K]) Forget(K) {}

// firstRecheck is the first delay of a key that waits for a cache.
const firstRecheck = 10 * time.Millisecond

// newRechecks delays keys that wait for a cache: by firstRecheck, doubled each time up to RecheckAfter. Keys do not
// delay each other: most of these reconciles send no request, and the others one or two.
func newRechecks[K comparable]() workqueue.TypedRateLimiter[K] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[K](firstRecheck, RecheckAfter)
}
