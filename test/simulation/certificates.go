package simulation

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/tools/cache"
)

func (s *scope) Certificates() certificates.Interface {
	return certificates.New(factory{s.w}, "", nil)
}

// MetadataFor implements controller.Scope.
func (s *scope) MetadataFor(resource schema.GroupVersionResource) informers.GenericInformer {
	key := resource
	key.Resource += " (metadata)" // there may be an informer of whole objects besides
	i, ok := s.w.informers[key]
	if !ok {
		shared := cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		i = &informer{SharedIndexInformer: shared, w: s.w, resource: resource, partial: true}
		s.w.informers[key] = i
		i.relist()
	}
	return generic{informer: i}
}

// Lister implements informers.GenericInformer.
func (g generic) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.informer.resource.GroupResource())
}

// form returns an object as an informer shows it.
func (i *informer) form(object runtime.Object) runtime.Object {
	if !i.partial {
		return object
	}
	return meta.AsPartialObjectMetadata(accessor(object))
}
