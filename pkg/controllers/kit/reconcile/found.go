package reconcile

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Found splits the result of a lister into the object, whether it exists, and any other error:
//
//	job, found, err := reconcile.Found(c.jobs.Jobs(key.Namespace).Get(key.Name))
//	if !found {
//		return err
//	}
//
// Not for live reads: an object that is not cached may exist.
func Found[T any](object T, err error) (T, bool, error) {
	if err == nil {
		return object, true, nil
	}
	var none T
	if apierrors.IsNotFound(err) {
		return none, false, nil
	}
	return none, false, fmt.Errorf("looking up a %T in the cache: %w", none, err)
}
