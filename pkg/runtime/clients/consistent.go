package clients

import (
	"net/http"
	"net/url"
	"strings"
)

// consistentTransport makes lists from any version consistent reads. A reflector that cannot
// stream its first list asks for resource version 0, which an API server answers from its
// watch cache, however old that is: from before writes that a client has seen carried out.
type consistentTransport struct{ layer }

// RoundTrip implements http.RoundTripper.
func (t *consistentTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || isWatch(req) || !strings.Contains(req.URL.RawQuery, "resourceVersion=0") {
		return t.next.RoundTrip(req)
	}
	query := req.URL.Query()
	if query.Get("resourceVersion") != "0" {
		return t.next.RoundTrip(req)
	}
	query.Del("resourceVersion")
	query.Del("resourceVersionMatch")
	return t.next.RoundTrip(withQuery(req, query))
}

// withQuery returns a copy of a request: a RoundTripper must not change its own.
func withQuery(req *http.Request, query url.Values) *http.Request {
	changed := *req
	at := *req.URL
	at.RawQuery = query.Encode()
	changed.URL = &at
	return &changed
}
