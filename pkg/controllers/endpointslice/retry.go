package endpointslice

import "time"

const (
	// maxRetries is how often a key is retried before it waits for its next event.
	maxRetries = 15

	// minRetryDelay and maxRetryDelay bound the delay before a Service is retried. The
	// delay starts long because most failures are conflicts with a cache that lags.
	minRetryDelay = time.Second
	maxRetryDelay = 1000 * time.Second

	// minSliceDelay is the least time between a notification of a slice that is not as
	// it was written and the reconcile of its Service.
	minSliceDelay = time.Second
)

// sliceDelay is the delay of a reconcile caused by a notification of a slice.
func sliceDelay(batchPeriod time.Duration) time.Duration { return max(minSliceDelay, batchPeriod) }
