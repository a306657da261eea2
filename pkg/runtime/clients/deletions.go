package clients

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kcmd.dev/pkg/controller"
)

// deletingTransport asks before each deletion, and refuses those that are stopped.
type deletingTransport struct {
	deletions *controller.Deletions
	next      http.RoundTripper
	base      string // path before /api and /apis, without trailing slash
}

var _ utilnet.RoundTripperWrapper = &deletingTransport{}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (t *deletingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *deletingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodDelete && req.Method != http.MethodPost || !t.deletions.On() {
		return t.next.RoundTrip(req)
	}
	of, deletes := deletedBy(req.Method, strings.TrimPrefix(req.URL.Path, t.base))
	if !deletes {
		return t.next.RoundTrip(req)
	}
	_, deletion, err := t.deletions.Ask(req.Context(), of.Resource, of.Namespace, of.Name)
	if err != nil {
		closeBody(req)
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)
	}
	defer deletion.End()
	resp, err := t.next.RoundTrip(req)
	if carriedOut(resp, err) {
		deletion.Keep()
	}
	return resp, err
}

// deletedBy returns what a request deletes, and whether it deletes anything. The name is empty for
// everything in a namespace.
func deletedBy(method, path string) (of Target, deletes bool) {
	w, ok := writeOf(method, path)
	switch {
	case !ok:
		return Target{}, false
	case w.Verb == verbCreate:
		return w.Target, w.Subresource == "eviction" && w.Resource == corev1.Resource("pods")
	}
	return w.Target, w.Subresource == ""
}

// carriedOut reports whether a write was carried out, or may have been.
func carriedOut(resp *http.Response, err error) bool {
	if err != nil {
		var unanswered *unansweredError
		return !errors.Is(err, ErrFenced) || errors.As(err, &unanswered)
	}
	return resp.StatusCode < http.StatusMultipleChoices || resp.StatusCode >= http.StatusInternalServerError
}
