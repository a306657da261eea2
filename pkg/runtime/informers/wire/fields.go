package wire

import "google.golang.org/protobuf/encoding/protowire"

// field is a field of an encoded message.
type field struct {
	number  protowire.Number
	encoded []byte // with its tag
	value   []byte // nil unless it is a message, a string or bytes
}

// next divides a message after its first field. It is not ok if that is broken.
func next(message []byte) (first field, rest []byte, ok bool) {
	number, kind, size := protowire.ConsumeTag(message)
	if size < 0 {
		return field{}, nil, false
	}
	length := protowire.ConsumeFieldValue(number, kind, message[size:])
	if length < 0 {
		return field{}, nil, false
	}
	first = field{number: number, encoded: message[:size+length]}
	if kind == protowire.BytesType {
		first.value, _ = protowire.ConsumeBytes(message[size:])
	}
	return first, message[size+length:], true
}

// parts of an encoded pod.
type parts struct{ metadata, spec, status []byte }

// divide is not ok if a pod consists of anything but one of each part.
func divide(pod []byte) (p parts, ok bool) {
	for len(pod) > 0 {
		var f field
		if f, pod, ok = next(pod); !ok {
			return parts{}, false
		}
		part := p.of(f.number)
		if part == nil || *part != nil || f.value == nil {
			return parts{}, false
		}
		*part = f.value
	}
	return p, p.metadata != nil && p.spec != nil && p.status != nil
}

// The numbers of fields are those of the generated.proto of each package.
func (p *parts) of(number protowire.Number) *[]byte {
	switch number {
	case 1:
		return &p.metadata
	case 2:
		return &p.spec
	case 3:
		return &p.status
	}
	return nil
}

// owner is to whom a field belongs.
type owner int

const (
	// own is a field that differs from pod to pod.
	own owner = iota
	// common is a field that pods of one template have in common.
	common
	// dropped is a field that is not decoded.
	dropped
)

func ofMetadata(number protowire.Number) owner {
	switch number {
	case 2, 3, 11, 12, 13, 14: // generateName, namespace, labels, annotations, ownerReferences, finalizers
		return common
	case 17: // managedFields
		return dropped
	}
	return own
}

func ofSpec(number protowire.Number) owner {
	switch number {
	case 10, 16: // nodeName, hostname
		return own
	}
	return common
}
