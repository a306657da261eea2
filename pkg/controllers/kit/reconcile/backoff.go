package reconcile

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// Backoff delays failed keys by first, doubled with each failure of the key up to last, and
// all keys together to 10 per second after the first 100. With 5 ms and 1000 s it is
// client-go's default for controllers.
func Backoff[K comparable](first, last time.Duration) workqueue.TypedRateLimiter[K] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](first, last),
		&workqueue.TypedBucketRateLimiter[K]{Limiter: rate.NewLimiter(10, 100)},
	)
}

// firstLook is the delay before a cache that a key waits for is looked at again, the first time.
const firstLook = 10 * time.Millisecond

// newLooks delays keys that wait for a cache: by firstLook, doubled each time up to RecheckAfter. Keys are
// not delayed because of others, for most looks cost the API server nothing, and the others a request or two.
func newLooks[K comparable]() workqueue.TypedRateLimiter[K] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[K](firstLook, RecheckAfter)
}
