package simulation

import (
	"bytes"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers/rbac"
	clienttesting "k8s.io/client-go/testing"
)

func (s *scope) Rbac() rbac.Interface { return rbac.New(factory{s.w}, "", nil) }

// fieldsOf are the fields of an object or of an apply configuration, except for its kind and metadata.
func fieldsOf(text []byte) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for _, other := range []string{"apiVersion", "kind", "metadata"} {
		delete(all, other)
	}
	return all, nil
}

// apply answers a server-side apply of an object. A field that was applied before, and is not any more, is removed if
// nobody has changed it since.
func (s *server) apply(a clienttesting.PatchAction) (runtime.Object, error) {
	resource, name := a.GetResource(), types.NamespacedName{Namespace: a.GetNamespace(), Name: a.GetName()}
	stored, exists := s.of(resource).objects[name]
	if !exists { // what would be created must not have a UID
		if !bytes.Contains(a.GetPatch(), []byte(`"uid"`)) {
			return nil, s.gap("an apply without a UID to %s %s, which does not exist", resource.Resource, name)
		}
		return nil, conflict(resource, name.Name)
	}
	uid, applied := accessor(stored).GetUID(), a.GetPatch()
	next, err := patched(stored, types.ApplyPatchType, applied)
	if err != nil {
		return nil, s.gap("apply %s to %s: %v", applied, resource.Resource, err)
	}
	if accessor(next).GetResourceVersion() != accessor(stored).GetResourceVersion() {
		return nil, conflict(resource, name.Name)
	}
	if err := invalid(stored, next); err != nil {
		return nil, err
	}
	sent, err := fieldsOf(applied)
	must(err)
	text, err := json.Marshal(stored)
	must(err)
	was, err := fieldsOf(text)
	must(err)
	removed := map[string]any{}
	for field, value := range s.applied[uid] {
		if _, kept := sent[field]; !kept && bytes.Equal(was[field], value) {
			removed[field] = nil
		}
	}
	if len(removed) > 0 {
		patch, err := json.Marshal(removed)
		must(err)
		next, err = patched(next, types.MergePatchType, patch)
		must(err)
	}
	answer, err := s.replace(resource, stored, next)
	if err != nil {
		return nil, err
	}
	text, err = json.Marshal(answer)
	must(err)
	is, err := fieldsOf(text)
	must(err)
	maps.DeleteFunc(is, func(field string, _ json.RawMessage) bool { _, ok := sent[field]; return !ok })
	if s.applied == nil {
		s.applied = map[types.UID]map[string]json.RawMessage{}
	}
	s.applied[uid] = is
	return answer, nil
}
