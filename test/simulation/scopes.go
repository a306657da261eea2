package simulation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	storageinformers "k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
)

// scope has the informers of the world.
type scope struct {
	controller.Scope
	w *World
}

func (s *scope) Apps() apps.Interface               { return apps.New(factory{s.w}, "", nil) }
func (s *scope) Autoscaling() autoscaling.Interface { return autoscaling.New(factory{s.w}, "", nil) }
func (s *scope) Batch() batch.Interface             { return batch.New(factory{s.w}, "", nil) }

func (s *scope) Certificates() certificates.Interface {
	return certificates.New(factory{s.w}, "", nil)
}

func (s *scope) Coordination() coordination.Interface {
	return coordination.New(factory{s.w}, "", nil)
}

func (s *scope) Core() core.Interface           { return core.New(factory{s.w}, "", nil) }
func (s *scope) Discovery() discovery.Interface { return discovery.New(factory{s.w}, "", nil) }

func (s *scope) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(factory{s.w}, "", nil)
}

func (s *scope) Networking() networking.Interface { return networking.New(factory{s.w}, "", nil) }
func (s *scope) Policy() policy.Interface         { return policy.New(factory{s.w}, "", nil) }
func (s *scope) Rbac() rbac.Interface             { return rbac.New(factory{s.w}, "", nil) }
func (s *scope) Resource() resource.Interface     { return resource.New(factory{s.w}, "", nil) }
func (s *scope) Scheduling() scheduling.Interface { return scheduling.New(factory{s.w}, "", nil) }

func (s *scope) Storage() storageinformers.Interface {
	return storageinformers.New(factory{s.w}, "", nil)
}

func (s *scope) Storagemigration() storagemigration.Interface {
	return storagemigration.New(factory{s.w}, "", nil)
}

// Filtered returns the whole: the worlds have nothing that the filters of their controllers leave out.
func (s *scope) Filtered(controller.Filter) informers.SharedInformerFactory { return s }

// AnyFor implements controller.Scope. An informer that it makes may not have listed yet, or begin with an older state.
func (s *scope) AnyFor(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if i, ok := s.w.anyInformer(resource); ok {
		return generic{informer: i}, nil
	}
	i := s.ofMetadata(resource)
	switch s.w.Rand.IntN(3) {
	case 0:
		i.relist()
	case 1:
		i.listOlder()
	}
	return generic{informer: i}, nil
}

// anyInformer returns the informer that there is of a resource, that of the metadata if there are two.
func (w *World) anyInformer(resource schema.GroupVersionResource) (*informer, bool) {
	for _, partial := range []bool{true, false} {
		if i, ok := w.informers[cached{resource, partial}]; ok {
			return i, true
		}
	}
	return nil, false
}

// MetadataFor implements controller.Scope.
func (s *scope) MetadataFor(resource schema.GroupVersionResource) informers.GenericInformer {
	i, ok := s.w.informers[cached{resource, true}]
	if !ok {
		i = s.ofMetadata(resource)
		i.relist()
	}
	return generic{informer: i}
}

// ofMetadata makes an informer of metadata that has not listed yet.
func (s *scope) ofMetadata(resource schema.GroupVersionResource) *informer {
	shared := cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	i := &informer{SharedIndexInformer: shared, w: s.w, cached: cached{resource, true}, unlisted: true}
	s.w.informers[i.cached] = i
	return i
}

// Release implements controller.Scope.
func (s *scope) Release(shared cache.SharedIndexInformer) {
	if i, ok := shared.(*informer); ok {
		i.handlers, i.pending, i.registrations = nil, nil, nil
		delete(s.w.informers, i.cached)
	}
}

// generic is an informer of objects of any kind.
type generic struct {
	informers.GenericInformer
	informer *informer
}

func (g generic) Informer() cache.SharedIndexInformer { return g.informer }

// Lister implements informers.GenericInformer.
func (g generic) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.informer.resource.GroupResource())
}

// factory makes the informers of typed objects.
type factory struct{ w *World }

func (f factory) Start(<-chan struct{})             {}
func (f factory) InformerName() *cache.InformerName { return nil }

func (f factory) InformerFor(
	object runtime.Object, newInformer internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	resource, _ := kindOf(object)
	if i, ok := f.w.informers[cached{resource, false}]; ok {
		return i
	}
	i := &informer{SharedIndexInformer: newInformer(f.w.Fake, 0), w: f.w, cached: cached{resource, false}, unlisted: true}
	f.w.informers[i.cached] = i
	if !f.w.Late || f.w.OneIn(2) {
		i.relist()
	}
	return i
}
