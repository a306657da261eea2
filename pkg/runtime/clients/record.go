package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
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
	recorder Recorder
	clock    clock.PassiveClock
	next     http.RoundTripper
	base     string // path before /api and /apis, without trailing slash
}

var _ utilnet.RoundTripperWrapper = &recordingTransport{}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (t *recordingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *recordingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resource, collection, recorded := recordedResource(req, t.base)
	if !recorded {
		return t.next.RoundTrip(req)
	}
	sent, began := sentVersion(req), t.clock.Now()
	resp, err := t.next.RoundTrip(req)
	switch {
	case err != nil, leavesOpen(resp.StatusCode, collection):
		t.recorder.Lost(resource)
	case resp.StatusCode < http.StatusMultipleChoices:
		protobuf := strings.Contains(resp.Header.Get("Content-Type"), "protobuf")
		resp.Body = &recordedBody{ReadCloser: resp.Body, done: func(head []byte) {
			version := ""
			if !collection { // of which the answer is the list as it was before
				version = versionIn(head, protobuf)
			}
			if made := resp.StatusCode == http.StatusCreated || sent != "" && sent != version; !made {
				began = time.Time{}
				if req.Method != http.MethodDelete && deletingIn(head, protobuf) {
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
	head := heads.Get().(*[headSize]byte)
	defer heads.Put(head)
	n, _ := io.ReadFull(body, head[:]) // an error is that there is less
	return versionIn(head[:n], bytes.HasPrefix(head[:n], protobufPrefix))
}

// unrecorded are resources that no controller reads from a cache, or whose creation stores
// nothing. They explain themselves, so the journal does without them.
var unrecorded = sets.New(
	schema.GroupResource{Resource: "events"},
	schema.GroupResource{Group: eventsv1.GroupName, Resource: "events"},
	schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"},
)

var requestInfos = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// recordedResource is the resource that a request may change, if it is one to record, and whether it deletes a
// collection.
func recordedResource(req *http.Request, base string) (resource schema.GroupResource, collection, recorded bool) {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return schema.GroupResource{}, false, false
	}
	url := *req.URL
	url.Path = strings.TrimPrefix(url.Path, base)
	info, err := requestInfos.NewRequestInfo(&http.Request{Method: req.Method, URL: &url})
	if err != nil || !info.IsResourceRequest || info.Subresource == "token" {
		return schema.GroupResource{}, false, false
	}
	resource = schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	return resource, info.Verb == verbDeleteCollection, !unrecorded.Has(resource)
}

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

// versionIn finds metadata.resourceVersion in the beginning of an object, empty if it is not
// there.
func versionIn(head []byte, protobuf bool) string {
	if protobuf {
		return protobufVersion(head)
	}
	return jsonVersion(json.NewDecoder(bytes.NewReader(head)))
}

// The numbers of the fields on the way to the resource version: of runtime.Unknown, which
// every object is wrapped in after a magic number, of every object, and of ObjectMeta.
const (
	rawField             protowire.Number = 2
	metadataField        protowire.Number = 1
	resourceVersionField protowire.Number = 6

	deletionTimestampField protowire.Number = 9
)

func protobufVersion(head []byte) string {
	if version, whole := fieldOf(protobufMetadata(head), resourceVersionField); whole {
		return string(version)
	}
	return ""
}

// protobufMetadata returns the metadata in the beginning of an object, which can be cut off.
func protobufMetadata(head []byte) []byte {
	message, wrapped := bytes.CutPrefix(head, protobufPrefix)
	if !wrapped {
		return nil
	}
	for _, field := range []protowire.Number{rawField, metadataField} {
		message, _ = fieldOf(message, field)
	}
	return message
}

// deletingIn reports whether there is a metadata.deletionTimestamp in the beginning of an object.
func deletingIn(head []byte, protobuf bool) bool {
	if protobuf {
		_, there := fieldOf(protobufMetadata(head), deletionTimestampField)
		return there
	}
	d := json.NewDecoder(bytes.NewReader(head))
	return enter(d, "metadata") == nil && enter(d, "deletionTimestamp") == nil
}

// fieldOf returns what a message, which can be cut off, holds in a field, and whether all of
// that is there.
func fieldOf(message []byte, wanted protowire.Number) (value []byte, whole bool) {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
				return nil, false
			}
			message = message[n:]
			continue
		}
		length, n := protowire.ConsumeVarint(message)
		if n < 0 {
			return nil, false
		}
		message = message[n:]
		whole = uint64(len(message)) >= length
		if field == wanted {
			return message[:min(uint64(len(message)), length)], whole
		}
		if !whole {
			return nil, false
		}
		message = message[length:]
	}
	return nil, false
}

var errNotFound = errors.New("there is no such field")

func jsonVersion(d *json.Decoder) string {
	var version string
	for _, field := range []string{"metadata", "resourceVersion"} {
		if err := enter(d, field); err != nil {
			return ""
		}
	}
	if err := d.Decode(&version); err != nil {
		return ""
	}
	return version
}

// enter moves a decoder that stands before an object to the value of a field of it.
func enter(d *json.Decoder, field string) error {
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return errors.Join(err, errNotFound)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil || name == field {
			return err
		}
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return err
		}
	}
	return errNotFound
}
