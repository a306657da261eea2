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
	return watchFence(t.fence, req, fenced).send(t.next)
}

// endingTransport sends requests until its fence closes. It is for discovery, to which client-go gives no context: when a term
// ends because the API server does not answer, whoever has asked is to stop, and would wait for it.
type endingTransport struct {
	layer
	fence Fence
}

// RoundTrip implements http.RoundTripper.
func (t *endingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.fence.Err(); err != nil {
		closeBody(req)
		return nil, ended(req, err)
	}
	return watchFence(t.fence, req, ended).send(t.next)
}

func ended(req *http.Request, cause error) error {
	return fmt.Errorf("%s %s: nobody waits for the answer: %w", req.Method, req.URL.Path, cause)
}

// isReview reports whether a path is in an API group whose resources are questions: creating one stores nothing.
func isReview(path string) bool {
	return strings.HasPrefix(path, "/apis/authentication.k8s.io/") || strings.HasPrefix(path, "/apis/authorization.k8s.io/")
}

// isWrite reports whether a request may change something. base is the path before /api and /apis.
func isWrite(req *http.Request, base string) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "":
		return false
	case http.MethodPost:
		return !isReview(strings.TrimPrefix(req.URL.Path, base))
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

// fenceWatch cancels one request when its fence closes.
type fenceWatch struct {
	request *http.Request
	ctx     context.Context
	cancel  context.CancelCauseFunc
	// failed is the error of a request that was cancelled.
	failed func(*http.Request, error) error
}

func watchFence(fence Fence, req *http.Request, failed func(*http.Request, error) error) *fenceWatch {
	w := &fenceWatch{request: req, failed: failed}
	w.ctx, w.cancel = context.WithCancelCause(req.Context())
	for _, f := range leaves(fence) {
		go w.follow(f)
	}
	return w
}

// send sends the request. It is watched until its response has been read.
func (w *fenceWatch) send(next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(w.request.WithContext(w.ctx))
	if err != nil {
		defer w.end()
		return nil, w.explain(err)
	}
	resp.Body = &watchedBody{ReadCloser: resp.Body, watch: w}
	return resp, nil
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
func (w *fenceWatch) explain(err error) error {
	var down *fenceDown
	if errors.As(context.Cause(w.ctx), &down) {
		return w.failed(w.request, fmt.Errorf("%w (%w)", down.cause, &unansweredError{err}))
	}
	return err
}

// unansweredError is that of a request which was sent, and may have been carried out.
type unansweredError struct{ error }

// Unwrap returns the error of the request.
func (e *unansweredError) Unwrap() error { return e.error }

// watchedBody ends the watch of a request when its answer has been read.
type watchedBody struct {
	io.ReadCloser
	watch *fenceWatch
	once  sync.Once
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.once.Do(b.watch.end)
	case err != nil:
		err = b.watch.explain(err)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.watch.end)
	return err
}
