package faultproxy

import (
	"bytes"
	"encoding/json"
	"mime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is what a fault can tell the events of a watch by.
type Event struct {
	Type                             watch.EventType
	Namespace, Name, ResourceVersion string
	UID                              types.UID
}

// aboutObject reports whether the event reports a change of an object.
func (e Event) aboutObject() bool {
	return e.Type == watch.Added || e.Type == watch.Modified || e.Type == watch.Deleted
}

// encoding is how a watch sends its events.
type encoding int

const (
	unknown  encoding = iota // passed on in pieces as they come
	jsonText                 // one line each
	protobuf                 // a length of four bytes before each
)

// protobufPrefix begins an object in protobuf, but not an event.
var protobufPrefix = []byte("k8s\x00")

func encodingOf(contentType string) encoding {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return unknown
	}
	switch mediaType {
	case runtime.ContentTypeJSON:
		return jsonText
	case runtime.ContentTypeProtobuf:
		return protobuf
	}
	return unknown
}

// decode reads an event, as framed on its way.
func (e encoding) decode(frame []byte) (Event, bool) {
	switch e {
	case jsonText:
		var event struct {
			Type   watch.EventType              `json:"type"`
			Object metav1.PartialObjectMetadata `json:"object"`
		}
		if err := json.Unmarshal(frame, &event); err != nil {
			return Event{}, false
		}
		return newEvent(event.Type, &event.Object), true
	case protobuf:
		var event metav1.WatchEvent
		if len(frame) < lengthSize || event.Unmarshal(frame[lengthSize:]) != nil {
			return Event{}, false
		}
		if event.Type == string(watch.Error) { // a Status has other metadata
			return Event{Type: watch.Error}, true
		}
		object, ok := decodeProtobuf(event.Object.Raw)
		return newEvent(watch.EventType(event.Type), object), ok
	}
	return Event{}, false
}

func newEvent(t watch.EventType, o *metav1.PartialObjectMetadata) Event {
	return Event{Type: t, Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
}

// decodeProtobuf reads the metadata of any object: they are the first field of all.
func decodeProtobuf(data []byte) (*metav1.PartialObjectMetadata, bool) {
	var envelope runtime.Unknown
	var object metav1.PartialObjectMetadata
	data, ok := bytes.CutPrefix(data, protobufPrefix)
	ok = ok && envelope.Unmarshal(data) == nil && object.Unmarshal(envelope.Raw) == nil
	return &object, ok
}

// nameOf returns the name of an object that is sent, or nothing.
func nameOf(body []byte, contentType string) string {
	switch encodingOf(contentType) {
	case jsonText:
		var object metav1.PartialObjectMetadata
		if json.Unmarshal(body, &object) == nil {
			return object.Name
		}
	case protobuf:
		if object, ok := decodeProtobuf(body); ok {
			return object.Name
		}
	}
	return ""
}
