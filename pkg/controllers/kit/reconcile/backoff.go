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

// Backoff delays failed keys by first, doubled with each failure of the key up to last, and
// all keys together to 10 per second after the first 100, for which a key waits no longer than
// maxTurn.
func Backoff[K comparable](first, last time.Duration) workqueue.TypedRateLimiter[K] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](first, last),
		&turns[K]{bucket: rate.NewLimiter(10, 100)},
	)
}

// maxTurn is how long a key waits at most because others fail. The failures of one tenant, however many, then
// delay the keys of another by no more.
const maxTurn = 30 * time.Second

// turns delays all keys together. Unlike workqueue.TypedBucketRateLimiter it takes no token that comes later than
// after maxTurn, so that the bucket never owes more than those.
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

// firstLook is the delay before a cache that a key waits for is looked at again, the first time.
const firstLook = 10 * time.Millisecond

// newLooks delays keys that wait for a cache: by firstLook, doubled each time up to RecheckAfter. Keys are
// not delayed because of others, for most looks cost the API server nothing, and the others a request or two.
func newLooks[K comparable]() workqueue.TypedRateLimiter[K] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[K](firstLook, RecheckAfter)
}
