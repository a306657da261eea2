// Package controllertest builds the Env of a controller for its unit tests, on fake
// clients and a fake clock.
package controllertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/runtime/informers/informerstest"
)

// Env is the Env of one instance under test, with handles on its fakes.
type Env struct {
	controller.Env
	Fake   *fake.Clientset
	Clock  *clocktesting.FakeClock
	Events *record.FakeRecorder

	ctx      context.Context
	metadata *metadatafake.FakeMetadataClient
}

// New makes an Env whose API server holds the objects. Its informers are started with Start.
func New(t testing.TB, objects ...runtime.Object) *Env {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	metaScheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(metaScheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(objects...)
	metadata := metadatafake.NewSimpleMetadataClient(metaScheme)
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	events := record.NewFakeRecorder(1000)
	return &Env{
		Env: controller.Env{
			Name:      t.Name(),
			Client:    client,
			Metadata:  metadata,
			Discovery: client.Discovery(),
			Mapper:    meta.NewDefaultRESTMapper(scheme.Scheme.PrioritizedVersionsAllGroups()),
			Informers: informerstest.NewScopeWithMetadata(t, client, metadata),
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

		ctx:      ctx,
		metadata: metadata,
	}
}

// Context is the context of the test, with a logger that writes to it.
func (e *Env) Context() context.Context { return e.ctx }

// Start starts the informers that have been requested and waits until a controller could
// begin, and changes are noticed.
func (e *Env) Start(t testing.TB) {
	t.Helper()
	e.Informers.StartWithContext(e.ctx)
	if !e.Informers.WaitUntilReady(e.ctx) {
		t.Fatal("informers did not sync")
	}
	AwaitWatches(t, &e.Fake.Fake)
	AwaitWatches(t, &e.metadata.Fake)
}

// Run runs a controller until the test ends or the returned function is called, which
// waits for its end. An error of the controller is one of the test.
func (e *Env) Run(t testing.TB, c controller.Controller) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(e.ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run = %v", err)
			}
		case <-time.After(patience):
			t.Error("Run did not return")
		}
	})
	t.Cleanup(stop)
	return stop
}

// Writes returns the requests so far that are no reads.
func (e *Env) Writes() []clienttesting.Action {
	var all []clienttesting.Action
	for _, action := range e.Fake.Actions() {
		switch action.GetVerb() {
		case "get", "list", "watch":
		default:
			all = append(all, action)
		}
	}
	return all
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
