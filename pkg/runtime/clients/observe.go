package clients

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// Observer receives the outcome of every write of a Set, also of those that were refused before
// they were sent. It must not block, and is called from several goroutines.
type Observer interface {
	// Observe is called once per write. ctx is the context of the request.
	Observe(ctx context.Context, w Write)
}

// Write is a write and its outcome. It holds names only, nothing of what was written.
type Write struct {
	// Verb is create, update, patch, delete or deletecollection.
	Verb string
	Target
	// Subresource is what was written of the object, empty for the object itself.
	Subresource string
	// Owner is the controller of the object, as far as the request shows it: it is in the body
	// of a create or an update, and empty otherwise.
	Owner Target
	// Began is when the write was made, Took how long the response took.
	Began time.Time
	Took  time.Duration
	// Code is the HTTP status of the response, 0 if there was none.
	Code int
	// Message is why it failed, empty if it did not.
	Message string
	// Refused is set if this process refused it; Code is 0 then.
	Refused bool
}

// Target names an object. The name is empty if the write is of several objects; it ends with
// an asterisk if the API server was to complete it and did not.
type Target struct {
	Resource        schema.GroupResource
	Namespace, Name string
}

// observingTransport tells an Observer of writes. It is the outermost of the transports that
// may refuse a write.
type observingTransport struct {
	layer
	observer Observer
	clock    clock.PassiveClock
	base     string // path before /api and /apis, without trailing slash
}

// RoundTrip implements http.RoundTripper.
func (t *observingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	w, ok := writeToRecord(req, t.base)
	if !ok {
		return t.next.RoundTrip(req)
	}
	w.readBody(req)
	w.Began = t.clock.Now()
	resp, err := t.next.RoundTrip(req)
	w.Took = t.clock.Since(w.Began)
	if err != nil {
		w.Message, w.Refused = err.Error(), refused(err)
		t.observer.Observe(req.Context(), w)
		return resp, err
	}
	w.Code = resp.StatusCode
	failed := resp.StatusCode >= http.StatusBadRequest
	if !failed && !w.unnamed() {
		t.observer.Observe(req.Context(), w)
		return resp, nil
	}
	resp.Body = &recordedBody{ReadCloser: resp.Body, done: func(body []byte) {
		if answer := headOf(resp, body); failed {
			w.Message = answer.message()
		} else if name := answer.name(); name != "" {
			w.Name = name
		}
		t.observer.Observe(req.Context(), w)
	}}
	return resp, nil
}

// refused reports whether a write failed because this process did not let it through. A write
// that was in flight when its fence closed counts, too: nobody has waited for its response.
func refused(err error) bool {
	var paused *controller.PausedError
	var stopped *controller.StoppedError
	return errors.Is(err, ErrFenced) || errors.Is(err, errShrunk) || errors.As(err, &paused) || errors.As(err, &stopped)
}

// unnamed reports whether the name of the object is in the response only.
func (w *Write) unnamed() bool {
	return w.Verb == verbCreate && (w.Name == "" || strings.HasSuffix(w.Name, "*"))
}

// Verbs, as in the rules of RBAC.
const (
	verbCreate           = "create"
	verbUpdate           = "update"
	verbPatch            = "patch"
	verbDelete           = "delete"
	verbDeleteCollection = "deletecollection"
)

// writeOf returns the write that a request is, and whether it is one: reads, reviews and tokens store
// nothing. path is that below the base of the API server.
//
// The parts of a path are those that apiserver's RequestInfoFactory finds. That one allocates
// a kilobyte for each request.
func writeOf(method, path string) (w Write, ok bool) {
	if w.Verb = verbOf(method); w.Verb == "" {
		return w, false
	}
	rest, ok := w.enterGroup(path)
	if !ok || isReview(path) {
		return w, false
	}
	resource, rest := part(rest)
	if namespace, below := part(rest); resource == "namespaces" && below != "" && !ofNamespace(below) {
		w.Namespace = namespace
		resource, rest = part(below)
	}
	w.Resource.Resource = resource
	w.Name, rest = part(rest)
	w.Subresource, _ = part(rest)
	if w.Verb == verbDelete && w.Name == "" {
		w.Verb = verbDeleteCollection
	}
	return w, w.Resource.Resource != "" && w.Subresource != "token"
}

// writeToRecord returns the write that a request is, and whether the journal and the ledger are to have it. base is the
// path before /api and /apis.
func writeToRecord(req *http.Request, base string) (w Write, ok bool) {
	w, ok = writeOf(req.Method, strings.TrimPrefix(req.URL.Path, base))
	return w, ok && !unrecorded.Has(w.Resource) && !isDryRun(req)
}

// isDryRun reports whether the API server is to judge a request and to store nothing. The clients say so of creates,
// updates and patches in the URL.
func isDryRun(req *http.Request) bool { return req.URL.RawQuery != "" && req.URL.Query().Has("dryRun") }

// verbOf returns the verb of a method that writes, empty for another one.
func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return verbCreate
	case http.MethodPut:
		return verbUpdate
	case http.MethodPatch:
		return verbPatch
	case http.MethodDelete:
		return verbDelete
	}
	return ""
}

// ofNamespace reports whether what follows the name of a namespace is a subresource of it rather
// than a resource in it.
func ofNamespace(path string) bool { return path == "status" || path == "finalize" }

// enterGroup takes the group and the version off a path.
func (w *Write) enterGroup(path string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(path, "/api/"); ok {
		_, rest = part(rest)
		return rest, rest != ""
	}
	if rest, ok = strings.CutPrefix(path, "/apis/"); !ok {
		return "", false
	}
	w.Resource.Group, rest = part(rest)
	_, rest = part(rest)
	return rest, rest != ""
}

// part splits a path at its first slash.
func part(path string) (first, rest string) {
	first, rest, _ = strings.Cut(path, "/")
	return first, rest
}
