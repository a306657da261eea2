package informers

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
)

// view is a SharedInformerFactory on the part of the objects that a filter selects. The
// scope's own view has the zero filter.
type view struct {
	scope  *Scope
	filter controller.Filter
	// name is the identity of the informer that is being made, nil at other times.
	name atomic.Pointer[cache.InformerName]
}

var _ informers.SharedInformerFactory = (*view)(nil)

// tweak is nil for views of all objects, as generated code expects.
func (v *view) tweak() internalinterfaces.TweakListOptionsFunc {
	fields, labels := v.filter.FieldSelector, v.filter.LabelSelector
	if fields == "" && labels == "" {
		return nil
	}
	// The informer keeps the function, so it must not refer to the scope.
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields
		o.LabelSelector = labels
	}
}

// InformerFor returns the shared informer for the type of obj, made by newFunc if there is
// none in the process. As in client-go the type (here with the filter) is all that identifies
// an informer, so newFunc must select the same objects for all callers.
func (v *view) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	objectType := reflect.TypeOf(obj)
	k := key{
		objectType: objectType,
		resource:   resources().resources[objectType],
		form:       Typed,
		filter:     v.filter,
	}
	return v.scope.informerFor(k, func() (cache.SharedIndexInformer, func()) {
		name, release := v.scope.informers.names.acquire(objectType, v.filter)
		v.name.Store(name)
		defer v.name.Store(nil)
		return newFunc(v.scope.informers.client, 0), release
	})
}

// InformerName is the identity in metrics of the informer that InformerFor is making at
// the moment, and nil, which is valid and means none, at any other time.
func (v *view) InformerName() *cache.InformerName { return v.name.Load() }

// ForResource returns the typed informer of a resource that client-go has a type for.
func (v *view) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	objectType, found := resources().types[resource]
	if !found {
		return nil, fmt.Errorf("no informer found for %v", resource)
	}
	obj := reflect.New(objectType.Elem()).Interface().(runtime.Object)
	informer := v.InformerFor(obj, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		// A temporary factory makes the informer.
		generic, err := informers.NewSharedInformerFactoryWithOptions(client, resync,
			informers.WithNamespace(v.filter.Namespace),
			informers.WithTweakListOptions(v.tweak()),
			informers.WithInformerName(v.InformerName()),
		).ForResource(resource)
		utilruntime.Must(err) // the table holds nothing the factory does not know
		return generic.Informer()
	})
	return genericInformer{
		informer: informer,
		lister:   cache.NewGenericLister(informer.GetIndexer(), resource.GroupResource()),
	}, nil
}

// genericInformer is an informer with its lister.
type genericInformer struct {
	informer cache.SharedIndexInformer
	lister   cache.GenericLister
}

func (g genericInformer) Informer() cache.SharedIndexInformer { return g.informer }
func (g genericInformer) Lister() cache.GenericLister         { return g.lister }

// Start is StartWithContext for callers that have a channel.
func (v *view) Start(stopCh <-chan struct{}) {
	v.StartWithContext(wait.ContextForChannel(stopCh))
}

// StartWithContext starts every informer the scope has requested so far, through any of
// its views, that is not running. They are not bound to ctx, but if it is over already
// nothing is started.
func (v *view) StartWithContext(ctx context.Context) {
	if ctx.Err() == nil {
		v.scope.start()
	}
}

// Shutdown makes further calls of Start do nothing. It does not wait, since the informers
// belong to the process.
func (v *view) Shutdown() { v.scope.refuseStart() }

// WaitForCacheSync is WaitForCacheSyncWithContext for callers that have a channel.
func (v *view) WaitForCacheSync(stopCh <-chan struct{}) map[reflect.Type]bool {
	return v.WaitForCacheSyncWithContext(wait.ContextForChannel(stopCh)).Synced
}

// WaitForCacheSyncWithContext waits, without polling, until the started informers of the
// view have synced, or ctx ends, or the scope is closed. The scope itself waits for all of
// its views and metadata informers, too.
func (v *view) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	ctx, cancel := v.scope.untilClosed(ctx)
	defer cancel()
	started := v.scope.startedInformers(v)
	checkers := make([]cache.DoneChecker, 0, len(started))
	for _, b := range started {
		checkers = append(checkers, b.informer.HasSyncedChecker())
	}
	complete := cache.WaitFor(ctx, "", checkers...)

	result := cache.SyncResult{Synced: make(map[reflect.Type]bool, len(started))}
	for _, b := range started {
		others, seen := result.Synced[b.key.objectType]
		result.Synced[b.key.objectType] = b.informer.HasSynced() && (others || !seen)
	}
	if !complete {
		result.Err = context.Cause(ctx)
	}
	return result
}
