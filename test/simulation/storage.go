package simulation

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// encode remembers in which way an object is stored.
func (s *server) encode(resource schema.GroupVersionResource, m metav1.Object) {
	if s.w.Encoding == nil {
		return
	}
	if s.encoded == nil {
		s.encoded = map[types.UID]string{}
	}
	s.encoded[m.GetUID()] = s.w.Encoding(resource)
}

// isEncoded reports whether an object is stored in the present way.
func (s *server) isEncoded(resource schema.GroupVersionResource, m metav1.Object) bool {
	return s.w.Encoding == nil || s.encoded[m.GetUID()] == s.w.Encoding(resource)
}

// EncodingOf returns in which way an object is stored.
func (w *World) EncodingOf(object metav1.Object) string { return w.server.encoded[object.GetUID()] }

// Bookmark sends a bookmark to the cache of the kind of an object if nothing else is on its way there. It reports
// whether the cache is newer then.
func (w *World) Bookmark(object runtime.Object) bool {
	resource, _ := kindOf(object)
	i, ok := w.anyInformer(resource)
	now := strconv.Itoa(w.server.version)
	if !ok || i.isBehind() || i.GetStore().LastStoreSyncResourceVersion() == now {
		return false
	}
	w.log("bookmark %s of %s", now, resource.Resource)
	i.GetIndexer().Bookmark(now)
	return true
}
