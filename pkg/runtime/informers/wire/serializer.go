package wire

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Pods returns a serializer for a client that decodes watched pods as this package describes, and all else as base
// does.
func Pods(base runtime.NegotiatedSerializer, o Options) runtime.NegotiatedSerializer {
	d := newDecoder(o)
	return serializer(base, objects{kind: podType, decode: func(encoded []byte) runtime.Object {
		if pod := d.decode(encoded); pod != nil {
			return pod
		}
		return nil
	}})
}

// serializer returns base with another decoder of watched objects of one kind.
func serializer(base runtime.NegotiatedSerializer, watched objects) runtime.NegotiatedSerializer {
	var infos []runtime.SerializerInfo
	for _, info := range base.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeProtobuf && info.StreamSerializer != nil {
			stream := *info.StreamSerializer
			stream.Serializer = events{stream.Serializer}
			info.StreamSerializer = &stream
			watched.Serializer = info.Serializer
			info.Serializer = watched
		}
		infos = append(infos, info)
	}
	return negotiated{base, infos}
}

type negotiated struct {
	runtime.NegotiatedSerializer
	infos []runtime.SerializerInfo
}

func (n negotiated) SupportedMediaTypes() []runtime.SerializerInfo { return n.infos }

// objects decodes objects of a kind for those who do not say what to decode them into, as watches do.
type objects struct {
	runtime.Serializer
	kind   typeMeta
	decode func(encoded []byte) runtime.Object // nil if it has to be decoded otherwise
}

func (s objects) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		if encoded := s.kind.in(data); encoded != nil {
			if object := s.decode(encoded); object != nil {
				kind := s.kind.kind
				object.GetObjectKind().SetGroupVersionKind(kind)
				return object, &kind, nil
			}
		}
	}
	return s.Serializer.Decode(data, defaults, into)
}

// magic is the number that encoded objects begin with.
var magic = []byte("k8s\x00")

// typeMeta is a kind, and how it is encoded before an object.
type typeMeta struct {
	kind    schema.GroupVersionKind
	encoded []byte
}

// Encoded are runtime.TypeMeta, which consist of the version of the API and the kind.
var (
	podType     = typeMeta{corev1.SchemeGroupVersion.WithKind("Pod"), []byte("\x0a\x02v1\x12\x03Pod")}
	partialType = typeMeta{metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"), []byte("\x0a\x0emeta.k8s.io/v1\x12\x15PartialObjectMetadata")}
)

// in returns the encoded object of this kind, nil if it is of another kind or not encoded as usual.
func (t typeMeta) in(data []byte) []byte {
	const kindOf, raw = 1, 2 // of runtime.Unknown
	data, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return nil
	}
	kind, data, ok := next(data)
	if !ok || kind.number != kindOf || !bytes.Equal(kind.value, t.encoded) {
		return nil
	}
	object, rest, ok := next(data)
	if !ok || object.number != raw {
		return nil
	}
	// The encoding and type of the content follow, which are empty.
	for len(rest) > 0 {
		var f field
		if f, rest, ok = next(rest); !ok || f.value == nil || len(f.value) > 0 {
			return nil
		}
	}
	return object.value
}

// events decodes the events of a watch. The object of an event is not copied: it is valid until the next one is decoded,
// and those who decode events decode their objects before.
type events struct{ runtime.Serializer }

func (s events) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok && parse(data, event) {
		kind := metav1.SchemeGroupVersion.WithKind("WatchEvent")
		return event, &kind, nil
	}
	return s.Serializer.Decode(data, defaults, into)
}

// parse is not ok if the event has anything but a type and an object.
func parse(data []byte, into *metav1.WatchEvent) (ok bool) {
	const eventType, object, raw = 1, 2, 1
	kind, data, ok := next(data)
	if !ok || kind.number != eventType {
		return false
	}
	holder, data, ok := next(data)
	if !ok || holder.number != object || len(data) > 0 {
		return false
	}
	content, rest, ok := next(holder.value)
	if !ok || content.number != raw || len(rest) > 0 {
		return false
	}
	into.Type, into.Object = nameOf(kind.value), runtime.RawExtension{Raw: content.value}
	return true
}

// nameOf is the type of an event, without memory of its own if it is known.
func nameOf(encoded []byte) string {
	for _, known := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(encoded) == string(known) {
			return string(known)
		}
	}
	return string(encoded)
}
