package informers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
)

func TestDryScopeWarmsWithoutHandlers(t *testing.T) {
	h := newHarness(t, pods(4)...)
	dry := h.open(ScopeOptions{Name: "standby", Dry: true})
	dry.SetResyncPeriod(time.Second)
	informer := dry.Core().V1().Pods().Informer()
	if err := informer.AddIndexers(cache.Indexers{"node": byNode}); err != nil {
		t.Fatal(err)
	}
	handler := addHandler(t, informer, cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { t.Error("a dry scope called a handler") },
	})
	if handler.HasSynced() {
		t.Error("registration is synced before the cache is")
	}
	startAndSync(t, dry)
	if !handler.HasSynced() || !cache.IsDone(handler.HasSyncedChecker()) {
		t.Error("registration is not synced although the cache is")
	}
	if err := informer.RemoveEventHandler(handler); err != nil {
		t.Error(err)
	}

	active := h.open(ScopeOptions{Name: "active"})
	seen := newRecorder()
	addHandler(t, active.Core().V1().Pods().Informer(), seen)
	startAndSync(t, active)
	if adds, _ := seen.count(); adds != 4 {
		t.Errorf("active scope saw %d of 4 pods", adds)
	}
	eventually(t, "the watch to be open", func() bool { return h.requests("watch", "pods") > 0 })
	if got := len(h.client.Actions()); got != 2 {
		t.Errorf("got %d requests, want the list and the watch of the standby", got)
	}
	if got := active.Core().V1().Pods().Informer().GetIndexer().ListIndexFuncValues("node"); len(got) != 4 {
		t.Errorf("index of the standby has %d values, want 4", len(got))
	}
}

func TestFilteredViewsAreSeparate(t *testing.T) {
	other := pod("p0")
	other.Namespace = "other"
	h := newHarness(t, append(pods(3), other)...)
	var restrictions sync.Map
	h.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		r := action.(clienttesting.ListAction).GetListRestrictions()
		restrictions.Store(fmt.Sprintf("%s|%s|%s", action.GetNamespace(), r.Fields, r.Labels), true)
		return false, nil, nil
	})
	s := h.open(ScopeOptions{Name: "filters"})
	if s.Filtered(controller.Filter{}) != informers.SharedInformerFactory(s) {
		t.Error("the zero filter is not the scope itself")
	}
	byLabel := controller.Filter{LabelSelector: "app=p0"}
	if s.Filtered(byLabel) != s.Filtered(byLabel) {
		t.Error("one filter gave two views")
	}
	fullFilter := controller.Filter{Namespace: "default", FieldSelector: "metadata.name=p0", LabelSelector: "app=p0"}
	full := s.Filtered(fullFilter).Core().V1().Pods()
	want := map[*informer]int{
		s.Core().V1().Pods().Informer().(*informer):                                                   4,
		s.Filtered(byLabel).Core().V1().Pods().Informer().(*informer):                                 2,
		s.Filtered(controller.Filter{Namespace: "other"}).Core().V1().Pods().Informer().(*informer):   1,
		s.Filtered(controller.Filter{FieldSelector: "a=b"}).Core().V1().Pods().Informer().(*informer): 4, // the fake ignores field selectors
		full.Informer().(*informer): 1,
	}
	if len(want) != 5 {
		t.Fatalf("got %d informers, want 5", len(want))
	}
	// Any view starts them all.
	s.Filtered(byLabel).Start(t.Context().Done())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		t.Fatal(err)
	}
	for w, n := range want {
		if got := len(w.GetStore().ListKeys()); got != n {
			t.Errorf("%s holds %d objects, want %d", w.base.key, got, n)
		}
	}
	for _, sent := range []string{"||", "||app=p0", "other||", "|a=b|", "default|metadata.name=p0|app=p0"} {
		if _, found := restrictions.Load(sent); !found {
			t.Errorf("no list with namespace|fields|labels = %q", sent)
		}
	}
	generic, err := s.Filtered(fullFilter).ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
	if err != nil || generic.Informer() != full.Informer() {
		t.Errorf("ForResource of a view returned another informer (error %v)", err)
	}
}

func TestStart(t *testing.T) {
	h := newHarness(t, pods(1)...)
	s := h.open(ScopeOptions{Name: "start"})
	podInformer := s.Core().V1().Pods().Informer()
	startAndSync(t, s)

	late := s.Core().V1().Nodes().Informer()
	addHandler(t, late, newRecorder())
	if result := s.WaitForCacheSync(t.Context().Done()); len(result) != 1 {
		t.Errorf("waited for %v, want only what was started", result)
	}
	if s.Ready() {
		t.Error("handler of an informer that was not started is synced")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.StartWithContext(ended)
	if h.snapshot().running != 1 {
		t.Error("Start with an ended context started an informer")
	}
	startAndSync(t, s)
	if !late.HasSynced() || !podInformer.HasSynced() {
		t.Error("informers are not synced")
	}

	s.Shutdown()
	s.Core().V1().Services().Informer()
	s.StartWithContext(t.Context())
	if got := h.snapshot().running; got != 2 {
		t.Errorf("%d informers run, want none started after Shutdown", got)
	}
}

func TestRunKeepsTheInformerRunning(t *testing.T) {
	h := newHarness(t, pods(1)...)
	s := h.open(ScopeOptions{Name: "run"})
	informer := s.Core().V1().Pods().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		informer.Run(ctx.Done())
		close(ended)
	}()
	eventually(t, "the informer to sync", informer.HasSynced)
	cancel()
	<-ended
	h.create(pod("later"))
	eventually(t, "the informer to go on", func() bool { return len(informer.GetStore().ListKeys()) == 2 })
}

func TestInformersStartLate(t *testing.T) {
	h := newHarness(t)
	shared := New(Options{Client: h.client, Clock: h.clock})
	defer shared.Shutdown()
	s := shared.NewScope(ScopeOptions{Name: "early"})
	defer s.Close()
	informer := s.Core().V1().Pods().Informer()
	s.StartWithContext(t.Context())
	if got := shared.snapshot().running; got != 0 {
		t.Fatalf("%d informers run before Informers.Start", got)
	}
	shared.Start(t.Context())
	eventually(t, "the informer to sync", informer.HasSynced)
}

func TestWaitUntilReady(t *testing.T) {
	h := newHarness(t, pods(2)...)
	release := make(chan struct{})
	h.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-release
		return false, nil, nil
	})
	s := h.open(ScopeOptions{Name: "wait"})
	informer := s.Core().V1().Pods().Informer()
	first := addHandler(t, informer, newRecorder())
	s.StartWithContext(t.Context())

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if s.WaitUntilReady(ended) {
		t.Error("handlers are synced before the list came back")
	}
	waited := make(chan bool)
	go func() { waited <- s.WaitUntilReady(t.Context()) }()
	// A handler that is added while the informer is not synced counts, one removed does not.
	second := newRecorder()
	addHandler(t, informer, second)
	if err := informer.RemoveEventHandler(first); err != nil {
		t.Fatal(err)
	}
	close(release)
	if !<-waited {
		t.Error("WaitUntilReady failed")
	}
	if adds, _ := second.count(); adds != 2 {
		t.Errorf("handler had seen %d of 2 pods when it was synced", adds)
	}

	stuck := h.open(ScopeOptions{Name: "stuck"})
	addHandler(t, stuck.Core().V1().Services().Informer(), newRecorder())
	go func() { waited <- stuck.WaitUntilReady(t.Context()) }()
	stuck.Close()
	if <-waited {
		t.Error("WaitUntilReady succeeded on a scope that was closed")
	}
}

// TestHandlersAreNotSyncedTooEarly pins what keeps client-go from taking a handler for
// synced in the middle of the initial list: nothing is delivered before all is queued.
func TestHandlersAreNotSyncedTooEarly(t *testing.T) {
	h := newHarness(t, pods(500)...)
	for _, start := range []string{"cold", "warm"} {
		s := h.open(ScopeOptions{Name: start})
		informer := s.Core().V1().Pods().Informer()
		var early atomic.Bool
		registered := addHandler(t, informer, cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			if !informer.HasSynced() {
				early.Store(true)
			}
		}})
		startAndSync(t, s)
		if early.Load() || !registered.HasSynced() {
			t.Errorf("%s: delivered before the initial list was queued: %t, synced: %t", start, early.Load(), registered.HasSynced())
		}
	}
}

func TestHandlerMayRemoveItself(t *testing.T) {
	h := newHarness(t, pods(10)...)
	s := h.open(ScopeOptions{Name: "self"})
	informer := s.Core().V1().Pods().Informer()
	handles := make(chan cache.ResourceEventHandlerRegistration, 1)
	var calls atomic.Int32
	done := make(chan struct{})
	handles <- addHandler(t, informer, cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		calls.Add(1)
		if err := informer.RemoveEventHandler(<-handles); err != nil {
			t.Error(err)
		}
		close(done)
	}})
	s.StartWithContext(t.Context())
	<-done
	other := newRecorder()
	addHandler(t, informer, other)
	startAndSync(t, s)
	if got := calls.Load(); got != 1 {
		t.Errorf("called %d times after it removed itself", got-1)
	}
	if got := h.snapshot().handlers; got != 1 {
		t.Errorf("%d handlers, want 1", got)
	}
}

func TestForeignRegistrationIsRefused(t *testing.T) {
	h := newHarness(t)
	a, b := h.open(ScopeOptions{Name: "a"}), h.open(ScopeOptions{Name: "b"})
	handler := addHandler(t, a.Core().V1().Pods().Informer(), newRecorder())
	if err := b.Core().V1().Pods().Informer().RemoveEventHandler(handler); err == nil {
		t.Error("a scope removed the handler of another one")
	}
	if err := a.Core().V1().Pods().Informer().RemoveEventHandler(nil); err == nil {
		t.Error("removing nothing succeeded")
	}
	if got := h.snapshot().handlers; got != 1 {
		t.Errorf("%d handlers, want 1", got)
	}
}

func TestSharedInformersAreNotReconfigured(t *testing.T) {
	h := newHarness(t)
	informer := h.open(ScopeOptions{Name: "settings"}).Core().V1().Pods().Informer()
	for name, err := range map[string]error{
		"transform":     informer.SetTransform(stripManagedFields),
		"error handler": informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}),
		"error handler with context": informer.SetWatchErrorHandlerWithContext(
			func(context.Context, *cache.Reflector, error) {}),
	} {
		if err == nil {
			t.Errorf("setting the %s of a shared informer succeeded", name)
		}
	}
}

func TestMetadataFor(t *testing.T) {
	h := newHarness(t)
	s := h.open(ScopeOptions{Name: "metadata"})
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	generic := s.MetadataFor(widgets)
	seen := newRecorder()
	addHandler(t, generic.Informer(), seen)
	if s.MetadataFor(widgets).Informer() != generic.Informer() {
		t.Error("two informers for one resource")
	}
	startAndSync(t, s)
	obj, err := generic.Lister().ByNamespace("default").Get("w")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := obj.(*metav1.PartialObjectMetadata); !ok {
		t.Errorf("lister returned a %T", obj)
	}
	if adds, _ := seen.count(); adds != 1 {
		t.Errorf("handler saw %d objects, want 1", adds)
	}
}

func onlyHandler(s *Scope) *handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.handlers {
		return h
	}
	return nil
}

func byNode(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }

func TestNotificationsReachTheHandler(t *testing.T) {
	h := newHarness(t, pods(2)...)
	s := h.open(ScopeOptions{Name: "live"})
	informer := s.Core().V1().Pods().Informer()
	seen := newRecorder()
	registered := addHandler(t, informer, seen)
	startAndSync(t, s)
	if !cache.IsDone(registered.HasSyncedChecker()) || !cache.IsDone(informer.HasSyncedChecker()) {
		t.Error("checkers are not done after the wait")
	}
	h.awaitWatch()
	changed := pod("p0")
	changed.ResourceVersion = "2"
	if err := h.client.Tracker().Update(podsResource, changed, "default"); err != nil {
		t.Fatal(err)
	}
	if err := h.client.Tracker().Delete(podsResource, "default", "p1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the update and the delete", func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return seen.updates["default/p0"] == 1 && seen.deletes["default/p1"] == 1
	})
	if got := seen.resynced(); got != 0 {
		t.Errorf("%d updates looked like a resync", got)
	}
}

func TestUnsynced(t *testing.T) {
	h := newHarness(t)
	release := make(chan struct{})
	h.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-release
		return false, nil, nil
	})
	s := h.open(ScopeOptions{Name: "unsynced"})
	filtered := s.Filtered(controller.Filter{Namespace: "ns", FieldSelector: "a=b", LabelSelector: "c=d"})
	filtered.Core().V1().Pods().Informer()
	s.StartWithContext(t.Context())
	if got := h.Unsynced(); len(got) != 1 || got[0] != "pods/ns[a=b]{c=d}" {
		t.Errorf("unsynced are %q", got)
	}
	close(release)
	startAndSync(t, s)
	if got := h.Unsynced(); len(got) != 0 {
		t.Errorf("unsynced are %q", got)
	}
}
