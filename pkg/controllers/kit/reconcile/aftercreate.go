package reconcile

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// recheckCreated is the delay before a namespace is reconciled again after an object was created in it, or after that
// was refused because of the state of the namespace. By then the cache shows the object, or that the namespace is
// terminating, so this sends no request.
const recheckCreated = 5 * time.Second

// AfterCreate returns the result of a reconcile that has sent a create of an object which every namespace is to have,
// given the answer. The key is that of the namespace, in the queue q; object is the kind and name, for errors.
//
//   - An object that was created is looked for again: if it is deleted while the watch is interrupted, there is no
//     event.
//   - That the namespace is being deleted, or is gone, is no failure. The key is reconciled again: if the namespace was
//     recreated, the API server may still know only the one before, and no event follows.
//   - One that exists already is waited for, see AwaitCache.
//   - Any other answer is a failure.
func AfterCreate[K comparable](q Queue[K], key K, object string, answer error) error {
	switch {
	case answer == nil, namespaceGone(answer):
		q.AddAfter(key, recheckCreated)
		return nil
	case apierrors.IsAlreadyExists(answer):
		return AwaitCache(fmt.Errorf("the cache does not show %s: %w", object, answer))
	}
	return fmt.Errorf("creating %s: %w", object, answer)
}

// namespaceGone reports whether a create was refused because of the state of the namespace. What else is not found, in
// the words of an admission webhook, is not known.
func namespaceGone(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	var answer apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && details.Kind == "namespaces"
}
