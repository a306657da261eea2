package clients

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// bodySize is how much of the body of a request is read to find its metadata, which comes first
// in protobuf. Objects with more annotations than that are written without naming their owner.
const bodySize = 16 << 10

var bodies = sync.Pool{New: func() any { return new([bodySize]byte) }}

// readBody completes a write with the name and the owner in the body of its request.
func (w *Write) readBody(req *http.Request) {
	if w.Verb == verbDelete || w.Verb == verbDeleteCollection || w.Subresource != "" && w.Subresource != "status" || req.GetBody == nil {
		return // there is no object in the body, or it cannot be read twice
	}
	body, err := req.GetBody()
	if err != nil {
		return
	}
	defer body.Close()
	buffer := bodies.Get().(*[bodySize]byte)
	defer bodies.Put(buffer)
	n, _ := io.ReadFull(body, buffer[:]) // an error is that there is less
	w.identify(buffer[:n])
}

// identify reads names from the beginning of a body.
func (w *Write) identify(body []byte) {
	var m objectNames
	if bytes.HasPrefix(body, protobufPrefix) {
		m.readProtobuf(protobufField(body, metadataField))
	} else if w.Verb == verbCreate || bytes.Contains(body, []byte(`"ownerReferences"`)) {
		m.readJSON(body)
	}
	if w.Name == "" && w.Verb == verbCreate {
		w.Name = m.Name
		if m.Name == "" && m.GenerateName != "" {
			w.Name = m.GenerateName + "*"
		}
	}
	w.Owner = ownerOf(m.OwnerReferences, w.Namespace)
}

// objectNames is the part of an object's metadata that identifies it.
type objectNames struct {
	Name            string                  `json:"name"`
	GenerateName    string                  `json:"generateName"`
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
}

func (m *objectNames) readJSON(body []byte) {
	d := json.NewDecoder(bytes.NewReader(body))
	if enter(d, "metadata") != nil || d.Decode(m) != nil {
		*m = objectNames{} // cut off, or something else, such as a JSON patch
	}
}

// The numbers of the fields of OwnerReference in protobuf.
const (
	ownerKindField       protowire.Number = 1
	ownerNameField       protowire.Number = 3
	ownerVersionField    protowire.Number = 5
	ownerControllerField protowire.Number = 6
)

func (m *objectNames) readProtobuf(message []byte) {
	eachField(message, func(field protowire.Number, value []byte, _ uint64) {
		switch field {
		case nameField:
			m.Name = string(value)
		case generateNameField:
			m.GenerateName = string(value)
		case ownerReferencesField:
			var owner metav1.OwnerReference
			eachField(value, func(field protowire.Number, value []byte, number uint64) {
				switch field {
				case ownerKindField:
					owner.Kind = string(value)
				case ownerNameField:
					owner.Name = string(value)
				case ownerVersionField:
					owner.APIVersion = string(value)
				case ownerControllerField:
					owner.Controller = ptr.To(number != 0)
				}
			})
			m.OwnerReferences = append(m.OwnerReferences, owner)
		}
	})
}

// eachField calls visit with the fields of a message up to where it is cut off: with the bytes of
// those that have some, with the number of those that are one.
func eachField(message []byte, visit func(field protowire.Number, value []byte, number uint64)) {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		switch kind {
		case protowire.BytesType:
			value, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return
			}
			visit(field, value, 0)
			message = message[n:]
		case protowire.VarintType:
			number, n := protowire.ConsumeVarint(message)
			if n < 0 {
				return
			}
			visit(field, nil, number)
			message = message[n:]
		default:
			if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
				return
			}
			message = message[n:]
		}
	}
}

// ownerOf returns the owner that controls an object in a namespace, or else its first owner.
func ownerOf(owners []metav1.OwnerReference, namespace string) Target {
	if len(owners) == 0 {
		return Target{}
	}
	owner := owners[0]
	for _, o := range owners {
		if ptr.Deref(o.Controller, false) {
			owner = o
		}
	}
	return targetOf(owner, namespace)
}

// OwnerOf returns the owner that controls an object, or else its first owner; the zero Target if
// it has none.
func OwnerOf(object metav1.Object) Target {
	return ownerOf(object.GetOwnerReferences(), object.GetNamespace())
}

// targetOf returns the object that an owner reference in a namespace is of. The resource is the
// plural that all built-in kinds have, and custom ones by convention.
func targetOf(owner metav1.OwnerReference, namespace string) Target {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return Target{}
	}
	resource, _ := meta.UnsafeGuessKindToResource(gv.WithKind(owner.Kind))
	return Target{Resource: resource.GroupResource(), Namespace: namespace, Name: owner.Name}
}
