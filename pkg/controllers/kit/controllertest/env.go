// Package controllertest builds the Env of a controller for its unit tests, on fake
// clients and a fake clock.
package controllertest

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/controllers/kit/controller"
)

// Env is the Env of one instance under test, with handles on its fakes.
type Env struct {
	controller.Env
	Fake   *fake.Clientset
	Clock  *clocktesting.FakeClock
	Events *record.FakeRecorder
	ctx    context.Context
}

// New makes an Env whose API server holds the objects. Its informers are started with Start.
func New(t testing.TB, objects ...runtime.Object) *Env {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	client := fake.NewClientset(objects...)
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	events := record.NewFakeRecorder(1000)
	scope := newScope(client)
	t.Cleanup(func() {
		cancel()
		scope.shutdown()
	})
	metaScheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(metaScheme); err != nil {
		t.Fatal(err)
	}
	return &Env{
		Env: controller.Env{
			Name:      t.Name(),
			Client:    client,
			Metadata:  metadatafake.NewSimpleMetadataClient(metaScheme),
			Discovery: client.Discovery(),
			Mapper:    meta.NewDefaultRESTMapper(scheme.Scheme.PrioritizedVersionsAllGroups()),
			Informers: scope,
			Events:    events,
			Metrics:   metrics.NewKubeRegistry(),
			Clock:     clock,
			Fenced:    make(chan struct{}),
			Served:    func() []*metav1.APIResourceList { return nil },
			Inspect:   func(controller.Inspectable) {},

			Predecessor: func() any { return nil },
		},
		Fake:   client,
		Clock:  clock,
		Events: events,
		ctx:    ctx,
	}
}

// Context is the context of the test, with a logger that writes to it.
func (e *Env) Context() context.Context { return e.ctx }

// Start starts the informers that have been requested and waits until they are synced.
func (e *Env) Start(t testing.TB) {
	t.Helper()
	e.Informers.StartWithContext(e.ctx)
	e.Informers.WaitForCacheSync(e.ctx.Done())
	if !e.Informers.WaitForHandlers(e.ctx) {
		t.Fatal("informers did not sync")
	}
}

// RecordedEvents returns the events recorded so far, as "Type Reason Message".
func (e *Env) RecordedEvents() []string {
	var events []string
	for {
		select {
		case event := <-e.Events.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

// scope is a controller.Scope over plain client-go factories.
type scope struct {
	informers.SharedInformerFactory
	client   *fake.Clientset
	metadata metadatainformer.SharedInformerFactory
	filtered map[controller.Filter]informers.SharedInformerFactory
}

func newScope(client *fake.Clientset) *scope {
	metaScheme := metadatafake.NewTestScheme()
	_ = metav1.AddMetaToScheme(metaScheme)
	return &scope{
		SharedInformerFactory: informers.NewSharedInformerFactory(client, 0),
		client:                client,
		metadata:              metadatainformer.NewSharedInformerFactory(metadatafake.NewSimpleMetadataClient(metaScheme), 0),
		filtered:              map[controller.Filter]informers.SharedInformerFactory{},
	}
}

func (s *scope) Filtered(f controller.Filter) informers.SharedInformerFactory {
	if f == (controller.Filter{}) {
		return s
	}
	if _, ok := s.filtered[f]; !ok {
		s.filtered[f] = informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(f.Namespace),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) {
				o.FieldSelector, o.LabelSelector = f.FieldSelector, f.LabelSelector
			}))
	}
	return s.filtered[f]
}

func (s *scope) MetadataFor(gvr schema.GroupVersionResource) informers.GenericInformer {
	return s.metadata.ForResource(gvr)
}

// AnyFor always takes metadata.
func (s *scope) AnyFor(gvr schema.GroupVersionResource) (informers.GenericInformer, error) {
	return s.MetadataFor(gvr), nil
}

// Release leaves the informer running: plain factories cannot stop one.
func (s *scope) Release(cache.SharedIndexInformer) {}

func (s *scope) StartWithContext(ctx context.Context) {
	s.SharedInformerFactory.StartWithContext(ctx)
	s.metadata.Start(ctx.Done())
	for _, f := range s.filtered {
		f.StartWithContext(ctx)
	}
}

func (s *scope) HandlersSynced() bool { return s.WaitForHandlers(context.Background()) }

func (s *scope) WaitForHandlers(ctx context.Context) bool {
	synced := true
	for _, f := range append([]informers.SharedInformerFactory{s.SharedInformerFactory}, values(s.filtered)...) {
		for _, ok := range f.WaitForCacheSync(ctx.Done()) {
			synced = synced && ok
		}
	}
	for _, ok := range s.metadata.WaitForCacheSync(ctx.Done()) {
		synced = synced && ok
	}
	return synced && ctx.Err() == nil
}

func (s *scope) shutdown() {
	s.SharedInformerFactory.Shutdown()
	s.metadata.Shutdown()
	for _, f := range s.filtered {
		f.Shutdown()
	}
}

func values[K comparable, V any](m map[K]V) []V {
	var all []V
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

var _ cache.InformerSynced = (&scope{}).HandlersSynced
