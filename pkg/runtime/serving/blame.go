package serving

import (
	"errors"
	"fmt"
	"syscall"

	"kcmd.dev/pkg/config/v1beta1"
)

// FieldError is why a configuration cannot be served, with the field to blame.
type FieldError struct {
	// Field is its path, such as serving.port.
	Field string
	Err   error
}

// Error implements error.
func (e *FieldError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the field.
func (e *FieldError) Unwrap() error { return e.Err }

// blame attributes an error to a field, and is nil if there is none.
func blame(field string, err error) error {
	if err == nil {
		return nil
	}
	return &FieldError{Field: field, Err: err}
}

// notBound says what is allowed where a socket cannot be opened.
func notBound(c v1beta1.Serving, err error) error {
	field, allowed := "serving.port", "must be a port that this process can open, or 0"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		allowed = "must be a port that nothing else uses, or 0"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		field, allowed = "serving.bindAddress", "must be an address of this machine"
	}
	return blame(field, fmt.Errorf("%s: serving on %s port %d: %w", allowed, c.BindAddress, *c.Port, err))
}
