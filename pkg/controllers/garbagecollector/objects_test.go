package garbagecollector

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var (
	configMaps = newMonitored(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap")
	secrets    = newMonitored(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret")
	nodes      = newMonitored(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "Node")
)

// object makes an object; its name is its UID.
func object(namespace, name string, edits ...func(*metav1.ObjectMeta)) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), ResourceVersion: "1"}}
	for _, edit := range edits {
		edit(&o.ObjectMeta)
	}
	return o
}

// owner adds a reference to the object of a kind that is named for its UID.
func owner(kind, name string, edits ...func(*metav1.OwnerReference)) func(*metav1.ObjectMeta) {
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID(name)}
	for _, edit := range edits {
		edit(&ref)
	}
	return func(m *metav1.ObjectMeta) { m.OwnerReferences = append(m.OwnerReferences, ref) }
}

func blocking(ref *metav1.OwnerReference) { ref.BlockOwnerDeletion = ptr.To(true) }

// deleted marks an object as being deleted with finalizers.
func deleted(finalizers ...string) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) {
		m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		m.Finalizers = finalizers
	}
}

func id(kind, namespace, name string) identity {
	return identity{apiVersion: "v1", kind: kind, namespace: namespace, name: name, uid: types.UID(name)}
}
