package informers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/runtime/takeover"
	"kcmd.dev/test/fakeclient"
)

// patience bounds every wait for something that happens on another goroutine.
const patience = 20 * time.Second

// harness is Informers on a fake API server and a fake clock.
type harness struct {
	*Informers
	t      *testing.T
	client *fake.Clientset
	meta   *metadatafake.FakeMetadataClient
	clock  *clocktesting.FakeClock
	// watching counts the pod watches that deliver changes.
	watching atomic.Int32
}

func newHarness(t *testing.T, objects ...runtime.Object) *harness {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	h := &harness{
		t:      t,
		client: fakeclient.New(objects...),
		meta: metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Widget"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"},
		}),
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
	h.client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		stream, err := h.client.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		h.watching.Add(1)
		return true, stream, err
	})
	h.Informers = New(Options{Client: h.client, Metadata: h.meta, Clock: h.clock})
	h.Start(t.Context())
	t.Cleanup(h.Shutdown)
	return h
}

// snapshot counts what Informers hold.
type snapshot struct {
	// informers is the number of shared informers, running that of those started.
	informers, running int
	// scopes is the number of open scopes, handlers that of their event handlers.
	scopes, handlers int
}

// snapshot returns the current counts.
func (i *Informers) snapshot() snapshot {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := snapshot{informers: len(i.bases), scopes: len(i.scopes)}
	for _, b := range i.bases {
		s.handlers += int(b.handlers.Load())
		if b.stop != nil {
			s.running++
		}
	}
	return s
}

// waitForCacheSync waits, without polling, until every informer that is started now has a
// complete cache. It returns false if ctx ended first.
func (h *harness) waitForCacheSync(ctx context.Context) bool {
	h.mu.Lock()
	var checkers []cache.DoneChecker
	for _, b := range h.bases {
		if b.wanted {
			checkers = append(checkers, b.informer.HasSyncedChecker())
		}
	}
	h.mu.Unlock()
	return cache.WaitFor(ctx, "", checkers...)
}

// open opens a scope that ends with the test and must not see a panic.
func (h *harness) open(o ScopeOptions) *Scope {
	h.t.Helper()
	if o.OnPanic == nil {
		o.OnPanic = func(err error) { h.t.Errorf("unexpected %v", err) }
	}
	s := h.NewScope(o)
	h.t.Cleanup(s.Close)
	return s
}

// barrier makes a barrier of a term that begins now and ends with the test.
func (h *harness) barrier(left takeover.Versions) *takeover.Barrier {
	h.t.Helper()
	b := takeover.New(h.t.Context(), takeover.Options{
		Left: left, Ledger: takeover.NewLedger(h.clock), Read: takeover.Reader{Metadata: h.meta}, Clock: h.clock,
	})
	h.t.Cleanup(b.End)
	return b
}

// requests counts what reached the API server.
func (h *harness) requests(verb, resource string) int {
	n := 0
	for _, action := range append(h.client.Actions(), h.meta.Actions()...) {
		if action.Matches(verb, resource) {
			n++
		}
	}
	return n
}

// goroutines returns the goroutines there are once the informers have opened their
// watches, after which they start none.
func (h *harness) goroutines(watches map[string]int) goleak.Option {
	h.t.Helper()
	for resource, n := range watches {
		eventually(h.t, "the watches to be open", func() bool { return h.requests("watch", resource) == n })
	}
	return goleak.IgnoreCurrent()
}

// awaitWatch waits until changes of pods are delivered: unlike the API server the fake one
// forgets those between a list and the watch.
func (h *harness) awaitWatch() {
	h.t.Helper()
	eventually(h.t, "the watch to be open", func() bool { return h.watching.Load() > 0 })
}

func (h *harness) create(pod *corev1.Pod) {
	h.t.Helper()
	h.awaitWatch()
	if _, err := h.client.CoreV1().Pods(pod.Namespace).Create(h.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// startAndSync starts the scope and waits until its handlers have seen everything.
func startAndSync(t *testing.T, s *Scope) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.StartWithContext(ctx)
	if err := s.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		t.Fatal(err)
	}
	if !s.WaitUntilReady(ctx) {
		t.Fatal("handlers did not sync")
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// asTimePasses is eventually with a clock that goes on. Code that sets a timer has read the
// clock before; if the clock is stepped in between, the timer is late by that step.
func (h *harness) asTimePasses(what string, condition func() bool) {
	h.t.Helper()
	eventually(h.t, what, func() bool {
		if condition() {
			return true
		}
		h.clock.Step(time.Second)
		return false
	})
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "1", Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: "node-" + name},
	}
}

func pods(n int) []runtime.Object {
	list := make([]runtime.Object, n)
	for i := range list {
		list[i] = pod(fmt.Sprintf("p%d", i))
	}
	return list
}

// recorder is a handler that counts.
type recorder struct {
	mu                     sync.Mutex
	adds, updates, deletes map[string]int
	resyncs                int
}

func newRecorder() *recorder {
	return &recorder{adds: map[string]int{}, updates: map[string]int{}, deletes: map[string]int{}}
}

func (r *recorder) OnAdd(obj any, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.adds[keyOf(obj)]++
}

func (r *recorder) OnUpdate(old, obj any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updates[keyOf(obj)]++
	if old == obj {
		r.resyncs++
	}
}

func (r *recorder) OnDelete(obj any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deletes[keyOf(obj)]++
}

func (r *recorder) count() (adds, resyncs int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.adds), r.resyncs
}

func (r *recorder) resynced() int {
	_, resyncs := r.count()
	return resyncs
}

func keyOf(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		panic(err)
	}
	return key
}

func addHandler(t *testing.T, informer cache.SharedIndexInformer, h cache.ResourceEventHandler) cache.ResourceEventHandlerRegistration {
	t.Helper()
	registered, err := informer.AddEventHandler(h)
	if err != nil {
		t.Fatal(err)
	}
	return registered
}
