package simulation

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// CollectGarbage is a pass of the garbage collector: objects whose owners are all gone are deleted, and others lose the
// references to owners that are gone. It reports whether it did anything.
func (w *World) CollectGarbage() bool {
	did := false
	for _, resource := range w.server.sorted() {
		objects := w.server.of(resource).objects
		for _, name := range sortedNames(objects) {
			if w.collect(resource, objects[name]) {
				did = true
			}
		}
	}
	return did
}

func (w *World) collect(resource schema.GroupVersionResource, object runtime.Object) bool {
	m := accessor(object)
	refs := m.GetOwnerReferences()
	var kept []metav1.OwnerReference
	for _, ref := range refs {
		if w.server.exists(m.GetNamespace(), ref) {
			kept = append(kept, ref)
		}
	}
	switch {
	case len(kept) == len(refs) || len(kept) == 0 && m.GetDeletionTimestamp() != nil:
		return false
	case len(kept) == 0:
		w.log("garbage collection deletes %s", describe(object))
		must(w.server.delete(resource, nameOf(m), metav1.DeleteOptions{}))
	default:
		w.log("garbage collection drops owners of %s", describe(object))
		next := object.DeepCopyObject()
		accessor(next).SetOwnerReferences(kept)
		w.server.put(resource, next)
	}
	return true
}

// exists reports whether the owner of an object in a namespace is stored.
func (s *server) exists(namespace string, ref metav1.OwnerReference) bool {
	resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	owner, ok := s.of(resource).objects[types.NamespacedName{Namespace: namespace, Name: ref.Name}]
	return ok && accessor(owner).GetUID() == ref.UID
}
