package clients

import (
	"fmt"
	"net/http"
	"net/url"
)

// ownTransport sends requests to the API server only. A client follows redirects, and each request gets its token after
// that, wherever it leads: what an aggregated API server answers, for example, may come to the client as it is.
type ownTransport struct {
	layer
	server *url.URL
}

// RoundTrip implements http.RoundTripper.
func (t *ownTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.server.Scheme || req.URL.Host != t.server.Host {
		closeBody(req)
		return nil, fmt.Errorf("%s %s: it is redirected to another server, %s, and not sent there", req.Method, req.URL.Path, req.URL.Host)
	}
	return t.next.RoundTrip(req)
}
