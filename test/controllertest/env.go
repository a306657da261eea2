// Package controllertest is the world in which the unit tests of controllers run.
//
//  1. New makes an Env on fake clients and a fake clock. It is the Env of one instance. Its API
//     server gives an object that is being deleted no further finalizers, and a patch undoes
//     nothing that a test changes meanwhile (Store, Change).
//  2. A test of decisions fills the caches itself (Cache, CatchUp), so that it decides how far
//     they are behind, replaces the queue by a Queue, and reconciles a key by a call. No
//     goroutine runs.
//  3. A test of a running controller calls Start, which starts the informers, and Run, and
//     waits (Eventually, AwaitIdle).
//  4. What the controller sent is printed in one form (Requests), in which requests are also
//     refused or intercepted; so are events (RecordedEvents), keys (Queue) and metrics (Series).
//  5. Pod and its changes make the pods that most tests need.
package controllertest

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/informers/informerstest"
	"kcmd.dev/test/fakeclient"
)

// Env is the Env of one instance under test, with handles on its fakes.
type Env struct {
	controller.Env
	Fake   *fake.Clientset
	Clock  *clocktesting.FakeClock
	Events *record.FakeRecorder
	// FilesChanged has the controller told that files which it follows have changed.
	FilesChanged chan<- struct{}

	ctx      context.Context
	metadata *metadatafake.FakeMetadataClient
	// version is the newest that the API server gave.
	version atomic.Int64
	// storing is held while an object is read and written, so that patches and changes of a test undo nothing.
	storing sync.Mutex

	mu    sync.Mutex
	loops []controller.Inspectable
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
	client := fakeclient.New(objects...)
	metadata := metadatafake.NewSimpleMetadataClient(metaScheme)
	dynamic := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(unstructuredScheme(), nil)
	refuseNewFinalizers(&metadata.Fake, metadata.Tracker(), &sync.Mutex{})
	refuseNewFinalizers(&dynamic.Fake, dynamic.Tracker(), &sync.Mutex{})
	clock := clocktesting.NewFakeClock(Epoch)
	events := record.NewFakeRecorder(1000)
	filesChanged := make(chan struct{}, 1)
	e := &Env{
		Env: controller.Env{
			Name:       t.Name(),
			Client:     client,
			Metadata:   metadata,
			Dynamic:    dynamic,
			RESTConfig: &rest.Config{},
			Discovery:  client.Discovery(),
			Mapper:     meta.NewDefaultRESTMapper(scheme.Scheme.PrioritizedVersionsAllGroups()),
			Informers:  informerstest.NewScopeWithMetadata(t, client, metadata),
			Events:     events,
			Metrics:    metrics.NewKubeRegistry(),
			Clock:      clock,
			Fenced:     make(chan struct{}),
			Served:     func() []*metav1.APIResourceList { return nil },

			FilesChanged: filesChanged,

			Succession: &controller.Succession{},
			Pauses:     &controller.Pauses{},
			Deletions:  &controller.Deletions{},
		},
		Fake:   client,
		Clock:  clock,
		Events: events,

		FilesChanged: filesChanged,

		ctx:      ctx,
		metadata: metadata,
	}
	refuseNewFinalizers(&client.Fake, client.Tracker(), &e.storing)
	e.version.Store(1000)
	e.Inspect = e.inspect
	return e
}

// unstructuredScheme has all kinds as unstructured objects. It is what dynamicfake.NewSimpleDynamicClient makes of the
// scheme for each client, which takes longer than everything else in New.
var unstructuredScheme = sync.OnceValue(func() *runtime.Scheme {
	all := runtime.NewScheme()
	for kind := range scheme.Scheme.AllKnownTypes() {
		var object runtime.Object = &unstructured.Unstructured{}
		if strings.HasSuffix(kind.Kind, "List") {
			object = &unstructured.UnstructuredList{}
		}
		all.AddKnownTypeWithName(kind, object)
	}
	return all
})

func (e *Env) inspect(loop controller.Inspectable) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loops = append(e.loops, loop)
}

// NilFields names the fields of an Env that are nil. There are to be none: controllers do not
// check.
func NilFields(env controller.Env) []string {
	var names []string
	fields := reflect.ValueOf(env)
	for i := range fields.NumField() {
		switch fields.Field(i).Kind() {
		case reflect.Interface, reflect.Pointer, reflect.Func, reflect.Chan:
			if fields.Field(i).IsNil() {
				names = append(names, fields.Type().Field(i).Name)
			}
		}
	}
	return names
}

// Succeed makes the Env that of a successor: with metrics of its own, and with what the
// instance before it handed over.
func (e *Env) Succeed(left any) {
	e.Metrics = metrics.NewKubeRegistry()
	e.Succession = &controller.Succession{}
	e.Succession.Leave(left)
}

// Context is the context of the test, with a logger that writes to it.
func (e *Env) Context() context.Context { return e.ctx }

// Start starts the informers that have been requested and waits until a controller could
// begin, and changes are noticed. A handler or an index that was refused fails the test.
func (e *Env) Start(t testing.TB) {
	t.Helper()
	if err := e.Informers.Err(); err != nil {
		t.Fatal(err)
	}
	before, ofMetadata := len(e.Fake.Actions()), len(e.metadata.Actions())
	e.Informers.StartWithContext(e.ctx)
	if !e.Informers.WaitUntilReady(e.ctx) {
		t.Fatal("informers did not sync")
	}
	awaitWatches(t, &e.Fake.Fake, before)
	awaitWatches(t, &e.metadata.Fake, ofMetadata)
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

// WriteVerbs returns the verbs of the Writes.
func (e *Env) WriteVerbs() []string {
	var verbs []string
	for _, action := range e.Writes() {
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
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

// WantEvents takes the events recorded since the last time, which have to be these.
func (e *Env) WantEvents(t testing.TB, want ...string) {
	t.Helper()
	if got := e.RecordedEvents(); !slices.Equal(got, want) {
		t.Errorf("events are %q, want %q", got, want)
	}
}
