package informers

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
)

// resourceTable maps the resources that client-go has typed informers for to Go types.
type resourceTable struct {
	types     map[schema.GroupVersionResource]reflect.Type
	resources map[reflect.Type]schema.GroupVersionResource
}

// resources is computed from the scheme and the generated factory, so that it stays complete
// when client-go adds a kind.
var resources = sync.OnceValue(func() resourceTable {
	table := resourceTable{
		types:     map[schema.GroupVersionResource]reflect.Type{},
		resources: map[reflect.Type]schema.GroupVersionResource{},
	}
	// The factory only looks names up here; nothing is requested, so it needs no client.
	factory := informers.NewSharedInformerFactory(nil, 0)
	for gvk, objectType := range scheme.Scheme.AllKnownTypes() {
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		if _, err := factory.ForResource(resource); err != nil {
			continue
		}
		pointer := reflect.PointerTo(objectType)
		table.types[resource] = pointer
		table.resources[pointer] = resource
	}
	return table
})
