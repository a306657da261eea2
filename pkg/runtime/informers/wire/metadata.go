package wire

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// decodePartial decodes metadata, nil if it has to be decoded otherwise.
func decodePartial(encoded []byte) runtime.Object {
	f, rest, ok := next(encoded)
	if !ok || f.number != 1 || f.value == nil || len(rest) > 0 {
		return nil
	}
	own, ok := withoutManagedFields(f.value)
	if !ok {
		return nil
	}
	partial := &metav1.PartialObjectMetadata{}
	if partial.ObjectMeta.Unmarshal(own) != nil {
		return nil
	}
	return partial
}

// withoutManagedFields returns encoded metadata up to its managedFields. It is not ok if anything follows them.
func withoutManagedFields(encoded []byte) (before []byte, ok bool) {
	for rest := encoded; len(rest) > 0; {
		f, after, ok := next(rest)
		if !ok {
			return nil, false
		}
		managed := ofMetadata(f.number) == dropped
		switch {
		case managed && before == nil:
			before = encoded[: len(encoded)-len(rest) : len(encoded)-len(rest)]
		case !managed && before != nil:
			return nil, false
		}
		rest = after
	}
	if before == nil {
		before = encoded
	}
	return before, true
}
