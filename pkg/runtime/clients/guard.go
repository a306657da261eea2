package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// errShrunk is the error of a write that would send an incomplete object.
var errShrunk = errors.New("refused: the object comes from a cache that dropped parts of it, and writing it would delete them; patch it, or read it from the API server first")

// guardedTransport refuses to write objects that a field manager manages, which marks those
// that a cache has shrunk. Elsewhere in an object the name may occur in data of users.
type guardedTransport struct {
	layer
	manager string
}

// RoundTrip implements http.RoundTripper.
func (t *guardedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	default:
		return t.next.RoundTrip(req)
	}
	req, refused, err := t.examine(req)
	if err != nil {
		closeBody(req)
		return nil, fmt.Errorf("reading the body of %s %s: %w", req.Method, req.URL.Path, err)
	}
	if refused {
		closeBody(req)
		return nil, fmt.Errorf("%s %s: body names the field manager %q: %w", req.Method, req.URL.Path, t.manager, errShrunk)
	}
	return t.next.RoundTrip(req)
}

// copies are buffers for bodies of requests.
var copies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// largestCopy is the size of buffers that are kept.
const largestCopy = 64 << 10

// examine reports whether the body of a request is refused, and returns a request that still has it.
func (t *guardedTransport) examine(req *http.Request) (_ *http.Request, refused bool, err error) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, false, nil
	}
	if req.GetBody == nil {
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = req.Body.Close()
		}
		if err != nil {
			return req, false, err
		}
		again := req.Clone(req.Context()) // a RoundTripper must not change its request
		again.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		again.Body, _ = again.GetBody()
		return again, managedBy(body, t.manager), nil
	}
	body, err := req.GetBody()
	if err != nil {
		return req, false, err
	}
	defer body.Close()
	buffer := copies.Get().(*bytes.Buffer)
	defer func() {
		if buffer.Cap() <= largestCopy {
			buffer.Reset()
			copies.Put(buffer)
		}
	}()
	_, err = buffer.ReadFrom(body)
	return req, managedBy(buffer.Bytes(), t.manager), err
}
