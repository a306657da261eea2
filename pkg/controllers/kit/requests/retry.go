package requests

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// RetryOnConflict calls try until it does not fail with a conflict, as often as the backoff says, and returns what the
// last call returned.
func RetryOnConflict(backoff wait.Backoff, try func() error) error {
	return RetryOn(apierrors.IsConflict, backoff, try)
}

// RetryOn calls try until it does not fail with a retriable error, as often as the backoff says, and returns what the
// last call returned.
//
// retry.OnError returns the error before that instead, which usually is nil, if the last call failed with a timeout or
// was cut off: it takes that for the end of its own wait.
func RetryOn(retriable func(error) bool, backoff wait.Backoff, try func() error) error {
	var last error
	_ = retry.OnError(backoff, retriable, func() error {
		last = try()
		return last
	})
	return last
}
