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
