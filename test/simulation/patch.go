package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

func (s *server) patch(a clienttesting.PatchAction) (runtime.Object, error) {
	if a.GetPatchType() == types.ApplyPatchType {
		if mayConflict(a) {
			return nil, s.gap("an apply without force to %s", a.GetResource().Resource)
		}
		if a.GetSubresource() == "" {
			return s.apply(a)
		}
	}
	resource, name := a.GetResource(), types.NamespacedName{Namespace: a.GetNamespace(), Name: a.GetName()}
	stored, ok := s.of(resource).objects[name]
	if !ok {
		return nil, apierrors.NewNotFound(resource.GroupResource(), a.GetName())
	}
	isStatus := a.GetSubresource() == "status"
	if a.GetSubresource() != "" && !isStatus {
		return nil, s.gap("patch of the %s of %s, type %s", a.GetSubresource(), resource.Resource, a.GetPatchType())
	}
	next, err := patched(stored, a.GetPatchType(), a.GetPatch())
	if err != nil {
		return nil, s.gap("patch %s of %s: %v", a.GetPatch(), resource.Resource, err)
	}
	if accessor(next).GetResourceVersion() != accessor(stored).GetResourceVersion() {
		return nil, conflict(resource, name.Name)
	}
	if err := invalid(stored, next); err != nil {
		return nil, err
	}
	if isStatus {
		next = withStatus(stored, next)
	}
	return s.replace(resource, stored, next)
}

// patched returns an object with a patch applied. A field that is applied replaces what was there, also if it is a
// list, as if the same manager had applied all of it.
func patched(stored runtime.Object, kind types.PatchType, patch []byte) (runtime.Object, error) {
	text, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	next := newOf(stored)
	switch kind {
	case types.StrategicMergePatchType:
		text, err = strategicpatch.StrategicMergePatch(text, patch, next)
	case types.MergePatchType, types.ApplyPatchType:
		text, err = jsonpatch.MergePatch(text, patch)
	default:
		return nil, fmt.Errorf("unexpected type %s", kind)
	}
	if err != nil {
		return nil, err
	}
	return next, json.Unmarshal(text, next)
}

// mayConflict reports whether an apply could conflict with another manager: it names fields, and is not forced.
func mayConflict(a clienttesting.PatchAction) bool {
	is, ok := a.(clienttesting.PatchActionImpl)
	sent, err := fieldsOf(a.GetPatch())
	return err == nil && len(sent) > 0 && !(ok && ptr.Deref(is.PatchOptions.Force, false))
}

// withStatus returns a stored object with the status and the annotations of another state of it. Of a Service, the
// status is written together with all metadata.
func withStatus(stored, from runtime.Object) runtime.Object {
	next := stored.DeepCopyObject()
	if _, ok := stored.(*corev1.Service); ok {
		accessor(next).SetFinalizers(accessor(from).GetFinalizers())
		accessor(next).SetLabels(accessor(from).GetLabels())
	}
	status := reflect.ValueOf(from).Elem().FieldByName("Status")
	reflect.ValueOf(next).Elem().FieldByName("Status").Set(status)
	accessor(next).SetAnnotations(accessor(from).GetAnnotations())
	return next
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
