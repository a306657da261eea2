package clients

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// Recorder is notified of the outcome of every write that a fence permitted. It must not
// block, and is called from several goroutines.
type Recorder interface {
	// Stored reports a write that the API server has carried out. version is the resource
	// version in its answer, empty if there is none, or if it is not that of what was written.
	// began is when the write was sent, zero if the version may be older than that: a write that
	// changes nothing is answered with the object as it was.
	Stored(resource schema.GroupResource, version string, began time.Time)
	// Lost reports a write that may have been carried out: there was no response, or none that says what became of it.
	Lost(resource schema.GroupResource)
}

// recordingTransport reports writes to a Recorder.
type recordingTransport struct {
	layer
	recorder Recorder
	clock    clock.PassiveClock
	base     string // path before /api and /apis, without trailing slash
}

// RoundTrip implements http.RoundTripper.
func (t *recordingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	w, ok := writeToRecord(req, t.base)
	if !ok {
		return t.next.RoundTrip(req)
	}
	resource, collection := w.Resource, w.Verb == verbDeleteCollection
	sent, began := sentVersion(req), t.clock.Now()
	resp, err := t.next.RoundTrip(req)
	switch {
	case err != nil, leavesOpen(resp.StatusCode, collection):
		t.recorder.Lost(resource)
	case resp.StatusCode < http.StatusMultipleChoices:
		resp.Body = &recordedBody{ReadCloser: resp.Body, done: func(body []byte) {
			answer, version := headOf(resp, body), ""
			if !collection { // of which the answer is the list as it was before
				version = answer.version()
			}
			if made := resp.StatusCode == http.StatusCreated || sent != "" && sent != version; !made {
				began = time.Time{}
				if req.Method != http.MethodDelete && answer.deleting() {
					version = "" // it may have removed the last finalizer, and the answer is the object before it was gone
				}
			}
			t.recorder.Stored(resource, version, began)
		}}
	}
	return resp, err
}

// sentVersion is the resource version in the body of an update, empty if there is none. The API server carries the
// update out at that version only: if its answer has another one, the update has made it.
func sentVersion(req *http.Request) string {
	if req.Method != http.MethodPut || req.GetBody == nil {
		return ""
	}
	body, err := req.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close()
	buffer := heads.Get().(*[headSize]byte)
	defer heads.Put(buffer)
	n, _ := io.ReadFull(body, buffer[:]) // an error is that there is less
	return head{body: buffer[:n], protobuf: bytes.HasPrefix(buffer[:n], protobufPrefix)}.version()
}

// unrecorded are resources that no controller reads from a cache. They explain themselves, so the journal does without
// them.
var unrecorded = sets.New(
	schema.GroupResource{Resource: "events"},
	schema.GroupResource{Group: eventsv1.GroupName, Resource: "events"},
	schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"},
)

// headSize is how much of an answer is kept to find the resource version in: it comes after
// names, of which the longest have 253 bytes.
const headSize = 2048

// heads are buffers for the beginnings of answers.
var heads = sync.Pool{New: func() any { return new([headSize]byte) }}

// recordedBody keeps the beginning of an answer until it has been read or dropped.
type recordedBody struct {
	io.ReadCloser
	done func(head []byte) // head is valid until it returns

	mu        sync.Mutex
	concluded bool
	buffer    *[headSize]byte // of heads, nil while nothing was read
	length    int
}

// Read implements io.Reader.
func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.keep(p[:n])
	if err != nil {
		b.conclude()
	}
	return n, err
}

// Close implements io.Closer.
func (b *recordedBody) Close() error {
	b.conclude()
	return b.ReadCloser.Close()
}

// keep copies what has room. The end may come from another goroutine, by Close.
func (b *recordedBody) keep(read []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.concluded || len(read) == 0 {
		return
	}
	if b.buffer == nil {
		b.buffer = heads.Get().(*[headSize]byte)
	}
	b.length += copy(b.buffer[b.length:], read)
}

func (b *recordedBody) conclude() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.concluded {
		return
	}
	b.concluded = true
	if b.buffer == nil {
		b.done(nil)
		return
	}
	b.done(b.buffer[:b.length])
	heads.Put(b.buffer)
	b.buffer = nil
}
