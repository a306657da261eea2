package endpointslicemirroring

import "time"

const (
	// maxRetries is how often a key is retried before it waits for its next event.
	maxRetries = 15

	// minRetryDelay and maxRetryDelay bound the delay before Endpoints are retried. The
	// delay starts long because most failures are conflicts with a cache that lags.
	minRetryDelay = time.Second
	maxRetryDelay = 100 * time.Second
)
