package clients

import (
	"fmt"
	"net/http"
	"strings"

	"kcmd.dev/pkg/controller"
)

// pausedTransport refuses writes into the namespaces in which an identity is paused.
type pausedTransport struct {
	layer
	pauses *controller.Pauses
	base   string // path before /api and /apis, without trailing slash
}

// RoundTrip implements http.RoundTripper.
func (t *pausedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.pauses.Any() || !isWrite(req, t.base) {
		return t.next.RoundTrip(req)
	}
	if namespace := namespaceIn(strings.TrimPrefix(req.URL.Path, t.base)); t.pauses.Hold(namespace) {
		closeBody(req)
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, &controller.PausedError{Namespace: namespace})
	}
	return t.next.RoundTrip(req)
}

// namespaceIn returns the namespace that a path of the API is in, empty if it is in none. A
// Namespace is in itself.
func namespaceIn(path string) string {
	rest, core := strings.CutPrefix(path, "/api/")
	if !core {
		group, named := strings.CutPrefix(path, "/apis/")
		if !named {
			return ""
		}
		_, rest, _ = strings.Cut(group, "/")
	}
	_, rest, _ = strings.Cut(rest, "/") // after the version
	rest, ok := strings.CutPrefix(rest, "namespaces/")
	if !ok {
		return ""
	}
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}
