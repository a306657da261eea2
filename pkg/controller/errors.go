package controller

import "errors"

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
