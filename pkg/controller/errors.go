package controller

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Absent reports whether the error of a request says that the object does not exist: the API server has answered with a
// Status that says so. The "404 page not found" of a proxy, or of an API server that does not serve the resource, is no
// such Status. client-go makes a NotFound error of it too, which says nothing about the object.
//
// It is for reads after which something is deleted, detached or released:
//
//	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
//	switch {
//	case controller.Absent(err):
//		return c.release(name)
//	case err != nil:
//		return err // nothing is known
//	}
func Absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Causes returns the errors that an error wraps directly, or is joined from; none if it wraps none. Who has to see
// every error of a tree walks it with Causes; errors.Is and errors.As end at the first that fits.
func Causes(err error) []error {
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	case interface{ Errors() []error }: // k8s.io/apimachinery/pkg/util/errors
		return e.Errors()
	}
	if wrapped := errors.Unwrap(err); wrapped != nil {
		return []error{wrapped}
	}
	return nil
}
