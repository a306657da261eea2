package reconcile

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// requeue marks an expected reason to retry.
type requeue struct{ error }

func (r requeue) Unwrap() error { return r.error }

// Requeue wraps a reason to retry a key later that is not a failure: it is logged at verbosity
// 4 and not counted as failed.
func Requeue(reason error) error { return requeue{reason} }

// IsRequeue reports whether an error consists of reasons to retry that are no failures: what Requeue made, conflicts, since
// the cache will show what the next attempt needs, and creates in a namespace that is being deleted, with which the
// object goes as well.
func IsRequeue(err error) bool {
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case requeue, await:
		return true
	case apierrors.APIStatus:
		return apierrors.IsConflict(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	case interface{ Unwrap() []error }:
		return areRequeues(e.Unwrap())
	case interface{ Errors() []error }: // k8s.io/apimachinery/pkg/util/errors
		return areRequeues(e.Errors())
	}
	wrapped := errors.Unwrap(err)
	return wrapped != nil && IsRequeue(wrapped)
}

func areRequeues(all []error) bool {
	for _, err := range all {
		if !IsRequeue(err) {
			return false
		}
	}
	return len(all) > 0
}

// await marks waiting for a cache.
type await struct{ error }

func (a await) Unwrap() error { return a.error }

// AwaitCache is Requeue for a key that waits for a cache to catch up. There may be no event when it has, so the key
// is never dropped because of the wait, and is reconciled again after RecheckAfter at the latest.
func AwaitCache(reason error) error { return await{Requeue(reason)} }

func isAwait(err error) bool {
	var a await
	return errors.As(err, &a)
}
