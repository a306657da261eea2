package clients

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"sigs.k8s.io/yaml"
)

var (
	// protobufPrefix begins every object that is encoded as protobuf.
	protobufPrefix = []byte("k8s\x00")
	// cborPrefix begins every body that is encoded as CBOR.
	cborPrefix = []byte{0xd9, 0xd9, 0xf7}
)

// managedBy reports whether the object or patch in a body says that the field manager manages
// the object, and nothing of what it did. A body that contains the name and cannot be decoded is
// assumed to. An API server stores what a manager did: such an entry is of a user who has called
// himself by that name.
func managedBy(body []byte, manager string) bool {
	if !bytes.Contains(body, []byte(manager)) {
		return false
	}
	if encoded, ok := bytes.CutPrefix(body, protobufPrefix); ok {
		return protobufManagedBy(encoded, manager)
	}
	var value any
	var err error
	if bytes.HasPrefix(body, cborPrefix) {
		err = direct.Unmarshal(body, &value)
	} else {
		err = yaml.Unmarshal(body, &value) // reads JSON, too
	}
	if err != nil {
		return true
	}
	if operations, ok := value.([]any); ok {
		return patchNames(operations, manager)
	}
	return names(value, managerPath, manager)
}

// protobufManagedBy reads no more of an object than its metadata, which is the first field
// of all kinds.
func protobufManagedBy(encoded []byte, manager string) bool {
	var envelope runtime.Unknown
	var object metav1.PartialObjectMetadata
	if envelope.Unmarshal(encoded) != nil || object.Unmarshal(envelope.Raw) != nil {
		return true
	}
	return slices.ContainsFunc(object.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && entry.Operation == ""
	})
}

// managerPath is where an object names its field managers. The asterisk is any index.
var managerPath = []string{"metadata", "managedFields", "*", "manager"}

// names reports whether any value at a path is the manager.
func names(value any, path []string, manager string) bool {
	if len(path) == 0 {
		return value == any(manager)
	}
	switch value := value.(type) {
	case map[string]any:
		if operation, _ := value["operation"].(string); len(path) == 1 && operation != "" {
			return false
		}
		return names(value[path[0]], path[1:], manager)
	case []any:
		for _, item := range value {
			if path[0] == "*" && names(item, path[1:], manager) {
				return true
			}
		}
	}
	return false
}

// patchNames reports whether an operation of a JSON patch writes the manager.
func patchNames(operations []any, manager string) bool {
	for _, operation := range operations {
		o, ok := operation.(map[string]any)
		if !ok {
			return true
		}
		pointer, _ := o["path"].(string)
		if rest, ok := below(pointer, managerPath); ok && o["op"] != "test" && names(o["value"], rest, manager) {
			return true
		}
	}
	return false
}

// below returns the rest of a path that a JSON pointer leads along.
func below(pointer string, path []string) (rest []string, ok bool) {
	if pointer == "" {
		return path, true
	}
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	if len(tokens) > len(path) {
		return nil, false
	}
	for i, token := range tokens {
		if path[i] != "*" && path[i] != token {
			return nil, false
		}
	}
	return path[len(tokens):], true
}
