package informers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
)

// Lookup returns an object from the caches, whole if one of them holds it whole, nil if none holds
// it. It sends no request. certain is whether a cache holds all objects of the resource and follows
// them, so that nil means that there is no such object.
func (i *Informers) Lookup(resource schema.GroupResource, namespace, name string) (object metav1.Object, certain bool) {
	key := cache.NewObjectName(namespace, name).String()
	for _, b := range i.complete() {
		if b.key.resource.GroupResource() != resource {
			continue
		}
		certain = certain || b.key.filter == (controller.Filter{}) && !b.lags()
		item, found, err := b.informer.GetStore().GetByKey(key)
		if err != nil || !found || object != nil && b.key.form != Typed {
			continue
		}
		if o, ok := item.(metav1.Object); ok {
			object = o
		}
	}
	return object, certain
}

// Problem is why a cache of the resource does not hold what it should, empty if none is known.
func (i *Informers) Problem(resource schema.GroupResource) string {
	problem := ""
	for _, b := range i.complete() {
		last, failing := b.lastFailure()
		if failing && b.key.resource.GroupResource() == resource && (problem == "" || last.err.Error() < problem) {
			problem = last.err.Error()
		}
	}
	return problem
}

// Visit calls visit for the objects in a namespace that the caches hold, once for each cache
// that has the object. It sends no request; its cost is in proportion to the number of objects
// in the namespace.
func (i *Informers) Visit(namespace string, visit func(schema.GroupResource, metav1.Object)) {
	for _, b := range i.complete() {
		items, err := b.informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
		if err != nil {
			continue // without such an index it is of a kind that has no namespaces
		}
		for _, item := range items {
			if o, ok := item.(metav1.Object); ok {
				visit(b.key.resource.GroupResource(), o)
			}
		}
	}
}

// complete returns the informers whose caches have been complete.
func (i *Informers) complete() []*base {
	i.mu.Lock()
	defer i.mu.Unlock()
	list := make([]*base, 0, len(i.bases))
	for _, b := range i.bases {
		if b.stop != nil && b.informer.HasSynced() {
			list = append(list, b)
		}
	}
	return list
}
