package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// layer is what the transports of this package have in common: each is around another one.
type layer struct{ next http.RoundTripper }

// WrappedRoundTripper is that of utilnet.RoundTripperWrapper.
func (l layer) WrappedRoundTripper() http.RoundTripper { return l.next }

var _ utilnet.RoundTripperWrapper = &fencedTransport{}

// minRecheck bounds how often a fence is checked that is past its deadline and not closed.
const minRecheck = 10 * time.Millisecond

// fencedTransport lets reads pass, and writes while its fence permits them.
type fencedTransport struct {
	layer
	fence Fence
	base  string // path before /api and /apis, without trailing slash
}

// RoundTrip implements http.RoundTripper.
func (t *fencedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !isWrite(req, t.base) {
		return t.next.RoundTrip(req)
	}
	if err := t.fence.Err(); err != nil {
		closeBody(req)
		return nil, fenced(req, err)
	}
	w := t.watch(req.Context())
	resp, err := t.next.RoundTrip(req.WithContext(w.ctx))
	if err != nil {
		defer w.end()
		return nil, w.explain(req, err)
	}
	resp.Body = &watchedBody{ReadCloser: resp.Body, watch: w, request: req}
	return resp, nil
}

// reviews are the API groups whose resources are questions: creating one stores nothing.
var reviews = [...]string{"/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"}

// isWrite reports whether a request may change something. base is the path before /api and /apis.
func isWrite(req *http.Request, base string) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "":
		return false
	case http.MethodPost:
		path := strings.TrimPrefix(req.URL.Path, base)
		for _, group := range reviews {
			if strings.HasPrefix(path, group) {
				return false
			}
		}
	}
	return true
}

func fenced(req *http.Request, cause error) error {
	return fmt.Errorf("%s %s: %w: %w", req.Method, req.URL.Path, ErrFenced, cause)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // as RoundTripper requires; an error cannot be reported
	}
}

// fenceWatch cancels one write when its fence closes.
type fenceWatch struct {
	fence  Fence
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (t *fencedTransport) watch(parent context.Context) *fenceWatch {
	w := &fenceWatch{fence: t.fence}
	w.ctx, w.cancel = context.WithCancelCause(parent)
	for _, f := range leaves(t.fence) {
		go w.follow(f)
	}
	return w
}

// follow waits for a fence to close, at its deadline even without a signal.
func (w *fenceWatch) follow(f Fence) {
	for {
		over, down := w.wait(f)
		if over {
			return
		}
		cause := f.Err()
		if cause == nil && down {
			cause = ErrClosed
		}
		if cause != nil {
			w.cancel(&fenceDown{cause})
			return
		}
	}
}

// wait returns when the request is over, the fence is closed, or its deadline has passed,
// which may have moved since.
func (w *fenceWatch) wait(f Fence) (over, down bool) {
	var timeout <-chan time.Time
	if deadline, limited := f.Deadline(); limited {
		timer := time.NewTimer(max(time.Until(deadline), minRecheck))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-w.ctx.Done():
		return true, false
	case <-f.Done():
		return false, true
	case <-timeout:
		return false, false
	}
}

func (w *fenceWatch) end() { w.cancel(context.Canceled) }

// fenceDown is the cause of a context that a fence cancelled.
type fenceDown struct{ cause error }

func (e *fenceDown) Error() string { return e.cause.Error() }

// explain distinguishes a cancellation by the fence from any other error.
func (w *fenceWatch) explain(req *http.Request, err error) error {
	var down *fenceDown
	if errors.As(context.Cause(w.ctx), &down) {
		return fenced(req, fmt.Errorf("%w (%w)", down.cause, &unansweredError{err}))
	}
	return err
}

// unansweredError is that of a request which was sent, and may have been carried out.
type unansweredError struct{ error }

// Unwrap returns the error of the request.
func (e *unansweredError) Unwrap() error { return e.error }

// watchedBody ends the watch of a write when its answer has been read.
type watchedBody struct {
	io.ReadCloser
	watch   *fenceWatch
	request *http.Request
	once    sync.Once
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.once.Do(b.watch.end)
	case err != nil:
		err = b.watch.explain(b.request, err)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.watch.end)
	return err
}
