package reconcile

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Absent reports whether the error of a live read says that the object does not exist: the API server has answered
// with a Status that says so. It is for reads after which something is deleted, detached or released:
//
//	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
//	switch {
//	case reconcile.Absent(err):
//		return c.release(name)
//	case err != nil:
//		return err // nothing is known
//	}
//
// The "404 page not found" of a proxy, or of an API server that does not serve the resource, is no such Status.
// client-go makes a NotFound error of it too, which says nothing about the object.
func Absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
