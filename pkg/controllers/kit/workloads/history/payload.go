package history

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// maxParentName is how many characters of the owner's name a revision name contains.
const maxParentName = 223

// Payload returns the payload of a template.
func Payload(template *corev1.PodTemplateSpec) ([]byte, error) {
	encoded, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encoding a pod template: %w", err)
	}
	// Every payload ever stored has its numbers converted through float64 and its keys sorted.
	var fields map[string]any
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, fmt.Errorf("decoding a pod template: %w", err)
	}
	fields["$patch"] = "replace"
	payload, err := json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
	if err != nil {
		return nil, fmt.Errorf("encoding a payload: %w", err)
	}
	return payload, nil
}

// Template returns the template in a payload. It returns false if the payload does not have the
// form of Payload; Apply accepts any.
func Template(payload []byte) (*corev1.PodTemplateSpec, bool) {
	outer, ok := only(payload, "spec")
	if !ok {
		return nil, false
	}
	inner, ok := only(outer, "template")
	if !ok {
		return nil, false
	}
	var directive struct {
		Patch string `json:"$patch"`
	}
	if err := json.Unmarshal(inner, &directive); err != nil || directive.Patch != "replace" {
		return nil, false
	}
	template := &corev1.PodTemplateSpec{}
	if err := kjson.Unmarshal(inner, template); err != nil {
		return nil, false
	}
	return template, true
}

// only returns the value of a key if it is the only one.
func only(object []byte, key string) ([]byte, bool) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil || len(fields) != 1 {
		return nil, false
	}
	value, ok := fields[key]
	return value, ok
}

// Apply returns the owner with a payload of any form applied.
func Apply[T any](owner *T, payload []byte) (*T, error) {
	encoded, err := json.Marshal(owner)
	if err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", owner, err)
	}
	applied := new(T)
	patched, err := strategicpatch.StrategicMergePatch(encoded, payload, *applied)
	if err != nil {
		return nil, fmt.Errorf("applying a revision: %w", err)
	}
	if err := kjson.Unmarshal(patched, applied); err != nil {
		return nil, fmt.Errorf("decoding a %T at a revision: %w", owner, err)
	}
	return applied, nil
}

// Hash returns the hash at the end of a revision's name. Each collision changes it.
func Hash(payload []byte, collisions int32) string {
	hash := fnv.New32() // writing to a hash never fails
	_, _ = hash.Write(payload)
	_, _ = hash.Write([]byte(strconv.FormatInt(int64(collisions), 10)))
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}

// Name returns the name of the parent's revision with a hash.
func Name(parent, hash string) string {
	return parent[:min(len(parent), maxParentName)] + "-" + hash
}
