package reconcile

import (
	"cmp"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/pkg/controller"
)

// requeue marks an expected reason to retry.
type requeue struct{ error }

func (r requeue) Unwrap() error { return r.error }

// Requeue wraps a reason to retry a key later that is not a failure: it is logged at verbosity
// 4 and not counted as failed.
func Requeue(reason error) error { return requeue{reason} }

// await marks waiting for a cache.
type await struct{ error }

func (a await) Unwrap() error { return a.error }

// AwaitCache is Requeue for a key that waits for a cache to catch up. There may be no event when it has, so the key
// is never dropped because of the wait, and is reconciled again after RecheckAfter at the latest.
func AwaitCache(reason error) error { return await{reason} }

func isAwait(err error) bool {
	var a await
	return errors.As(err, &a)
}

// IsRequeue reports whether Requeue or AwaitCache made every error that an error is joined from.
func IsRequeue(err error) bool {
	return every(err, func(error) bool { return false })
}

// IsExpected reports whether a reconcile failed only with reasons to retry that are no failures. The loop retries all
// of them with backoff and treats them alike:
//
//  1. What Requeue and AwaitCache made.
//  2. Conflicts: as a rule the cache is behind.
//  3. Creates in a namespace that is being deleted: as a rule the object goes with it.
func IsExpected(err error) bool {
	return IsExpectedOr(err, func(error) bool { return false })
}

// IsExpectedOr is IsExpected where further answers of the API server are no failures.
func IsExpectedOr(err error, also func(answer error) bool) bool {
	return every(err, func(answer error) bool {
		return apierrors.IsConflict(answer) ||
			apierrors.HasStatusCause(answer, corev1.NamespaceTerminatingCause) || also(answer)
	})
}

// Worst returns the first of the errors that is a failure. If all are expected (IsExpected), it returns the first of
// them; nil if there is none. Errors that are nil are skipped.
func Worst(errs ...error) error {
	failures := slices.DeleteFunc(slices.Clone(errs), IsExpected)
	return cmp.Or(cmp.Or(failures...), cmp.Or(errs...))
}

// every walks the tree of wrapped and joined errors, and reports whether every leaf is a marked error, or an answer of
// the API server that as accepts.
func every(err error, as func(answer error) bool) bool {
	switch err.(type) { //nolint:errorlint // the tree is walked here
	case requeue, await:
		return true
	case apierrors.APIStatus:
		return as(err)
	}
	causes := controller.Causes(err)
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(cause error) bool { return !every(cause, as) })
}
