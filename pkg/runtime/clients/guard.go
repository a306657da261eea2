package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// ErrShrunk is the error of a write that would send an incomplete object.
var ErrShrunk = errors.New("refused: the object comes from a cache that dropped parts of it, and writing it would delete them; patch it, or read it from the API server first")

// guardedTransport refuses to write objects that a field manager manages, which marks those
// that a cache has shrunk. Elsewhere in an object the name may occur in data of users.
type guardedTransport struct {
	manager string
	next    http.RoundTripper
}

var _ utilnet.RoundTripperWrapper = &guardedTransport{}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (t *guardedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *guardedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	default:
		return t.next.RoundTrip(req)
	}
	req, body, err := readBody(req)
	if err != nil {
		closeBody(req)
		return nil, fmt.Errorf("reading the body of %s %s: %w", req.Method, req.URL.Path, err)
	}
	if managedBy(body, t.manager) {
		closeBody(req)
		return nil, fmt.Errorf("%s %s: body names the field manager %q: %w", req.Method, req.URL.Path, t.manager, ErrShrunk)
	}
	return t.next.RoundTrip(req)
}

// readBody returns the body, and a request that still has it.
func readBody(req *http.Request) (*http.Request, []byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, nil, nil
	}
	if req.GetBody != nil {
		copied, err := req.GetBody()
		if err != nil {
			return req, nil, err
		}
		defer copied.Close()
		body, err := io.ReadAll(copied)
		return req, body, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return req, nil, err
	}
	if err := req.Body.Close(); err != nil {
		return req, nil, err
	}
	again := req.Clone(req.Context()) // a RoundTripper must not change its request
	again.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	again.Body, _ = again.GetBody()
	return again, body, nil
}
