package clients

import (
	"errors"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TokenError is the error of a request that was not sent for want of a token. It does not wrap why there is none:
// "not found", said of the service account, would pass for the answer to the request, and say of another object
// that it does not exist.
type TokenError struct {
	cause error
	ended error // of the context of the request or of the clients, nil if that is not why
}

// Error implements error.
func (e *TokenError) Error() string { return e.cause.Error() }

// Unwrap returns the error of a context that has ended, if that is why there is no token.
func (e *TokenError) Unwrap() error { return e.ended }

// NotSent tells IsRefusal of pkg/controllers/kit/requests that a write with this error has not been executed.
func (e *TokenError) NotSent() bool { return true }

// foreignTransport wraps the transports of a Set that return errors of their own, and strips from these the answers to
// other requests. The API server answers a request with a response, never with an error, but the cause of a context or
// of a fence can be any error.
type foreignTransport struct{ layer }

// RoundTrip implements http.RoundTripper.
func (t *foreignTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, withoutAnswer(err)
	}
	resp.Body = &foreignBody{resp.Body}
	return resp, nil
}

// foreignBody is a body whose errors do not contain the answer to another request.
type foreignBody struct{ io.ReadCloser }

// Read implements io.Reader.
func (b *foreignBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, withoutAnswer(err)
}

// withoutAnswer hides the answer to another request that an error contains.
func withoutAnswer(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	return &foreignError{err}
}

// foreignError is an error that contains the answer to another request. It is all that the error is except for that.
type foreignError struct{ cause error }

// Error implements error.
func (e *foreignError) Error() string { return e.cause.Error() }

// Is implements what errors.Is asks for.
func (e *foreignError) Is(target error) bool {
	return errors.Is(e.cause, target)
}

// As implements what errors.As asks for.
func (e *foreignError) As(target any) bool {
	switch target.(type) {
	case *apierrors.APIStatus, **apierrors.StatusError:
		return false
	}
	return errors.As(e.cause, target)
}
