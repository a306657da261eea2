package informers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
)

// Undeleted counts the objects of a resource that are not being deleted: the one of a name, all in
// a namespace if there is no name, or all if there is neither. One that the cache does not show
// counts, since it may be new. It sends no request; its cost is in proportion to the number of
// objects that it looks at.
//
// cached is whether a cache is to hold all objects of the resource, filled whether it does. If not,
// nothing is counted.
func (i *Informers) Undeleted(resource schema.GroupResource, namespace, name string) (n int, cached, filled bool) {
	b := i.allOf(resource)
	if b == nil {
		return 0, false, false
	}
	if !b.informer.HasSynced() {
		return 0, true, false
	}
	if name != "" {
		item, found, err := b.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
		if err != nil || !found {
			return 1, true, true
		}
		return undeleted(item), true, true
	}
	for _, item := range b.inNamespace(namespace) {
		n += undeleted(item)
	}
	return n, true, true
}

// UIDOf returns the UID of an object of a resource, empty if no cache of all its objects shows it.
func (i *Informers) UIDOf(resource schema.GroupResource, namespace, name string) types.UID {
	b := i.allOf(resource)
	if b == nil {
		return ""
	}
	item, found, err := b.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if o, ok := item.(metav1.Object); ok && found && err == nil {
		return o.GetUID()
	}
	return ""
}

// inNamespace returns the objects in a namespace, or all if it is empty.
func (b *base) inNamespace(namespace string) []any {
	if namespace != "" {
		if items, err := b.informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace); err == nil {
			return items
		}
	}
	return b.informer.GetStore().List()
}

func undeleted(item any) int {
	if o, ok := item.(metav1.Object); ok && o.GetDeletionTimestamp() != nil {
		return 0
	}
	return 1
}

// allOf returns a running informer of all objects of a resource, preferably one whose cache is
// filled, nil if there is none.
func (i *Informers) allOf(resource schema.GroupResource) *base {
	i.mu.Lock()
	defer i.mu.Unlock()
	var found *base
	for _, b := range i.bases {
		if b.stop == nil || b.key.filter != (controller.Filter{}) || b.key.resource.GroupResource() != resource {
			continue
		}
		if found == nil || b.informer.HasSynced() {
			found = b
		}
	}
	return found
}
