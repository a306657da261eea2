package podwire

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Serializer returns a serializer for a client that decodes watched pods as this package describes, and all else as
// base does.
func Serializer(base runtime.NegotiatedSerializer, o Options) runtime.NegotiatedSerializer {
	d := newDecoder(o)
	var infos []runtime.SerializerInfo
	for _, info := range base.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeProtobuf && info.StreamSerializer != nil {
			stream := *info.StreamSerializer
			stream.Serializer = events{stream.Serializer}
			info.StreamSerializer = &stream
			info.Serializer = objects{info.Serializer, d}
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

// objects decodes pods for those who do not say what to decode them into, as watches do.
type objects struct {
	runtime.Serializer
	pods *decoder
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func (s objects) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		if encoded := podIn(data); encoded != nil {
			if pod := s.pods.decode(encoded); pod != nil {
				kind := podKind
				pod.SetGroupVersionKind(kind)
				return pod, &kind, nil
			}
		}
	}
	return s.Serializer.Decode(data, defaults, into)
}

// What an encoded pod begins with: the magic number of the encoding, and a runtime.TypeMeta.
var (
	magic   = []byte("k8s\x00")
	podType = []byte("\x0a\x02v1\x12\x03Pod")
)

// podIn returns the encoded pod of an encoded object, nil if it is of another kind or not encoded as usual.
func podIn(data []byte) []byte {
	const typeMeta, raw = 1, 2
	data, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return nil
	}
	kind, data, ok := next(data)
	if !ok || kind.number != typeMeta || !bytes.Equal(kind.value, podType) {
		return nil
	}
	pod, rest, ok := next(data)
	if !ok || pod.number != raw {
		return nil
	}
	// The encoding and type of the content follow, which are empty.
	for len(rest) > 0 {
		var f field
		if f, rest, ok = next(rest); !ok || f.value == nil || len(f.value) > 0 {
			return nil
		}
	}
	return pod.value
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
