package informers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/pkg/runtime/takeover"
)

// A shorter grace period counts for informers that are idle already.
func TestGracePeriodChangesLive(t *testing.T) {
	h := newHarness(t, pods(3)...)
	scope := h.open(ScopeOptions{Name: "scope"})
	scope.Core().V1().Pods().Informer()
	startAndSync(t, scope)
	scope.Close()
	eventually(t, "the grace period to run", h.clock.HasWaiters)
	idle := h.clock.Now()
	h.SetGracePeriod(time.Second)
	h.asTimePasses("the informer to be dropped", func() bool { return h.snapshot().informers == 0 })
	if passed := h.clock.Since(idle); passed >= DefaultGracePeriod {
		t.Errorf("the informer was dropped after %v only", passed)
	}
}

func TestGracePeriod(t *testing.T) {
	h := newHarness(t, pods(3)...)
	first := h.open(ScopeOptions{Name: "first"})
	keeper := h.open(ScopeOptions{Name: "keeper"})
	first.Core().V1().Pods().Informer()
	first.Core().V1().Nodes().Informer()
	keeper.Core().V1().Nodes().Informer()
	startAndSync(t, first)

	// A referenced informer lives as long as it takes.
	h.clock.Step(100 * DefaultGracePeriod)
	first.Close()
	eventually(t, "the grace period to run", h.clock.HasWaiters)
	h.clock.Step(DefaultGracePeriod - time.Second)

	second := h.open(ScopeOptions{Name: "second"})
	pods := second.Core().V1().Pods().Informer()
	if !pods.HasSynced() || len(pods.GetStore().ListKeys()) != 3 {
		t.Fatal("a scope opened within the grace period got a cold cache")
	}
	h.clock.Step(100 * DefaultGracePeriod)
	if got := h.snapshot(); got.informers != 2 {
		t.Fatalf("a referenced informer was dropped: %+v", got)
	}

	second.Close()
	eventually(t, "the grace period to run again", h.clock.HasWaiters)
	h.clock.Step(DefaultGracePeriod)
	h.asTimePasses("the informer to be dropped", func() bool { return h.snapshot().informers == 1 })
	eventually(t, "the informer to stop", pods.(*informer).base.informer.IsStopped)
	if lists := h.requests("list", "pods"); lists != 1 {
		t.Fatalf("%d lists so far, want 1", lists)
	}

	third := h.open(ScopeOptions{Name: "third"})
	seen := newRecorder()
	addHandler(t, third.Core().V1().Pods().Informer(), seen)
	startAndSync(t, third)
	if adds, _ := seen.count(); adds != 3 || h.requests("list", "pods") != 2 {
		t.Errorf("a fresh informer showed %d of 3 pods after %d lists, want 2", adds, h.requests("list", "pods"))
	}
	if got := len(pods.GetStore().ListKeys()); got != 3 {
		t.Errorf("cache of the stopped informer holds %d pods, want the last state", got)
	}
}

func TestNeverStartedInformerIsDropped(t *testing.T) {
	h := newHarness(t)
	s := h.open(ScopeOptions{Name: "discarded"})
	s.Core().V1().Pods().Informer()
	s.Close()
	eventually(t, "the grace period to run", h.clock.HasWaiters)
	h.clock.Step(DefaultGracePeriod)
	h.asTimePasses("the informer to be dropped", func() bool { return h.snapshot() == snapshot{} })
}

func TestStoppedInformerFreesItsMemory(t *testing.T) {
	for name, open := range map[string]func(*harness) Barrier{
		"without a barrier": func(*harness) Barrier { return nil },
		// It lives until the term ends.
		"that has passed a barrier": func(h *harness) Barrier { return h.barrier(takeover.NothingWritten()) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, pods(1)...)
			barrier := open(h)
			stored := func() weak.Pointer[corev1.Pod] {
				s := h.NewScope(ScopeOptions{Name: "memory", Barrier: barrier})
				defer s.Close()
				informer := s.Core().V1().Pods().Informer()
				addHandler(t, informer, newRecorder())
				startAndSync(t, s)
				return storedPod(t, informer)
			}()
			runtime.GC()
			if stored.Value() == nil {
				t.Fatal("the object is gone while the informer is warm")
			}
			eventually(t, "the grace period to run", h.clock.HasWaiters)
			h.clock.Step(DefaultGracePeriod)
			h.asTimePasses("the object to be collected", func() bool {
				runtime.GC()
				return stored.Value() == nil
			})
		})
	}
}

// TestReleasedInformerIsNotComparedAnyMore: its kind may not be served, so that each read would fail until the term ends.
func TestReleasedInformerIsNotComparedAnyMore(t *testing.T) {
	h := newHarness(t, pods(1)...)
	h.meta.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, nil, errors.New("boom")
	})
	s := h.open(ScopeOptions{Name: "behind", Barrier: h.barrier(takeover.NothingLeft())})
	stored := func() weak.Pointer[corev1.Pod] {
		informer := s.Core().V1().Pods().Informer()
		s.StartWithContext(t.Context())
		outcome := waiting(t, s)
		eventually(t, "the comparison to fail", func() bool { return strings.HasSuffix(strings.Join(s.Waiting(), ""), "boom") })
		defer func() {
			s.Release(informer)
			if !<-outcome {
				t.Error("not ready")
			}
		}()
		return storedPod(t, informer)
	}()
	h.asTimePasses("the object to be collected", func() bool {
		runtime.GC()
		return stored.Value() == nil
	})
}

// storedPod returns the only pod in a cache.
func storedPod(t *testing.T, informer cache.SharedIndexInformer) weak.Pointer[corev1.Pod] {
	t.Helper()
	obj, found, err := informer.GetStore().GetByKey("default/p0")
	if err != nil || !found {
		t.Fatalf("found %v, %v", found, err)
	}
	return weak.Make(obj.(*corev1.Pod))
}

// Pins MGR-64.
func TestShutdownEndsEverything(t *testing.T) {
	// That no goroutine is left is checked by TestMain.
	h := newHarness(t, pods(3)...)
	s := h.open(ScopeOptions{Name: "open at shutdown"})
	s.SetResyncPeriod(time.Minute)
	informer := s.Core().V1().Pods().Informer()
	addHandler(t, informer, newRecorder())
	startAndSync(t, s)
	h.Shutdown()
	h.Shutdown()
	if !informer.IsStopped() {
		t.Error("the informer was not stopped")
	}
	if _, err := informer.AddEventHandler(newRecorder()); err == nil {
		t.Error("a handler was added to a stopped informer")
	}
	if got := h.snapshot().handlers; got != 1 {
		t.Errorf("%d handlers, want the one added before", got)
	}
	s.Core().V1().Nodes().Informer()
	s.StartWithContext(t.Context())
	if running := h.Status()[0].Running; running {
		t.Error("an informer was started after Shutdown")
	}
}

func TestAddIndexers(t *testing.T) {
	h := newHarness(t, pods(50)...)
	warm := h.open(ScopeOptions{Name: "warm"})
	informer := warm.Core().V1().Pods().Informer()
	startAndSync(t, warm)

	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			s := h.NewScope(ScopeOptions{Name: "indexing"})
			defer s.Close()
			informer := s.Core().V1().Pods().Informer()
			for _, name := range []string{"node", "label"} {
				if err := informer.AddIndexers(cache.Indexers{name: byNode, cache.NamespaceIndex: byNode}); err != nil {
					t.Error(err)
				}
				if err := informer.GetIndexer().AddIndexers(cache.Indexers{name: byNode}); err != nil {
					t.Error(err)
				}
				found, err := informer.GetIndexer().ByIndex(name, "node-p7")
				if err != nil || len(found) != 1 {
					t.Errorf("index %q returned %d objects, error %v", name, len(found), err)
				}
				if len(informer.GetIndexer().GetIndexers()) < 2 {
					t.Error("index is not listed")
				}
			}
		})
	}
	group.Wait()
	indexers := informer.GetIndexer().GetIndexers()
	if len(indexers) != 3 {
		t.Errorf("got %d indexes, want node, label and namespace", len(indexers))
	}
	delete(indexers, "node")
	if len(informer.GetIndexer().GetIndexers()) != 3 {
		t.Error("GetIndexers returned the map of the informer")
	}
	if found, err := informer.GetIndexer().ByIndex(cache.NamespaceIndex, "default"); err != nil || len(found) != 50 {
		t.Errorf("namespace index was replaced: %d objects, error %v", len(found), err)
	}
}

func TestFailingIndexFunctionIsIsolated(t *testing.T) {
	h := newHarness(t, pods(3)...)
	s := h.open(ScopeOptions{Name: "index"})
	informer := s.Core().V1().Pods().Informer()
	err := informer.AddIndexers(cache.Indexers{
		"panics": func(obj any) ([]string, error) {
			if keyOf(obj) == "default/p1" {
				panic("boom")
			}
			return []string{"x"}, nil
		},
		"fails": func(any) ([]string, error) { return []string{"x"}, fmt.Errorf("no value") },
	})
	if err != nil {
		t.Fatal(err)
	}
	startAndSync(t, s)
	for name, want := range map[string]int{"panics": 2, "fails": 0} {
		if found, err := informer.GetIndexer().ByIndex(name, "x"); err != nil || len(found) != want {
			t.Errorf("index %q holds %d objects, error %v, want %d", name, len(found), err, want)
		}
	}
	if got := h.Status()[0].LastError; !strings.Contains(got, "computing index") {
		t.Errorf("status shows the error %q", got)
	}
}

func TestWatchErrorsAreShownUntilTheyAreOver(t *testing.T) {
	h := newHarness(t, pods(1)...)
	var forbidden atomic.Bool
	forbidden.Store(true)
	h.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, apiruntime.Object, error) {
		if forbidden.Load() {
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", fmt.Errorf("not allowed"))
		}
		return true, &corev1.PodList{ListMeta: listMeta("7"), Items: []corev1.Pod{*pod("p0")}}, nil
	})
	s := h.open(ScopeOptions{Name: "watcher"})
	handler := addHandler(t, s.Core().V1().Pods().Informer(), newRecorder())
	s.StartWithContext(t.Context())
	eventually(t, "the error to show", func() bool { return strings.Contains(h.Status()[0].LastError, "not allowed") })
	status := h.Status()[0]
	if status.Synced || status.Resource != "pods" || status.Version != "v1" || status.Form != Typed || !status.Running ||
		status.Refs != 1 || status.Scopes[0] != "watcher" || status.Handlers != 1 || !status.LastErrorTime.Equal(h.clock.Now()) {
		t.Errorf("status is %+v", status)
	}
	forbidden.Store(false)
	eventually(t, "the informer to recover", handler.HasSynced)
	if status := h.Status()[0]; status.LastError != "" || !status.Synced || status.Objects != 1 || status.ResourceVersion != "7" {
		t.Errorf("status after recovery is %+v", status)
	}
	s.Close()
	if status := h.Status()[0]; status.Refs != 0 || status.Handlers != 0 || !status.IdleSince.Equal(h.clock.Now()) {
		t.Errorf("status without references is %+v", status)
	}
}

func TestRepeatedErrorsAreLoggedOnce(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
	log := logger.GetSink().(ktesting.Underlier).GetBuffer()
	h := newHarness(t)
	b := h.open(ScopeOptions{Name: "log"}).Core().V1().Pods().Informer().(*informer).base
	for _, step := range []struct {
		err   string
		after time.Duration
		lines int
	}{
		{err: "forbidden", lines: 1},
		{err: "forbidden", after: time.Minute, lines: 1},
		{err: "not found", after: time.Second, lines: 2},
		{err: "not found", after: repeatErrorAfter - time.Second, lines: 2},
		{err: "not found", after: time.Second, lines: 3},
	} {
		h.clock.Step(step.after)
		b.failed(logger, failure{err: errors.New(step.err)})
		if got := strings.Count(log.String(), "Informer failed to list or watch"); got != step.lines {
			t.Errorf("%d lines after %q, want %d:\n%s", got, step.err, step.lines, log.String())
		}
	}
}

func TestWaitForAllCaches(t *testing.T) {
	h := newHarness(t, pods(1)...)
	release := make(chan struct{})
	h.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, apiruntime.Object, error) {
		<-release
		return false, nil, nil
	})
	s := h.open(ScopeOptions{Name: "all"})
	informer := s.Core().V1().Pods().Informer()
	s.StartWithContext(t.Context())
	s.Core().V1().Nodes().Informer() // not started, so not waited for
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if h.waitForCacheSync(ended) {
		t.Error("caches are synced before the list came back")
	}
	close(release)
	if !h.waitForCacheSync(t.Context()) || !informer.HasSynced() {
		t.Error("caches did not sync")
	}
}

// TestWatchListIsKept proves that a real client streams the initial state: one watch and no list.
func TestWatchListIsKept(t *testing.T) {
	var lists, streams atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			lists.Add(1)
			http.Error(w, "unexpected list", http.StatusInternalServerError)
			return
		}
		if r.URL.Query().Get("sendInitialEvents") != "true" {
			http.Error(w, "unexpected watch", http.StatusInternalServerError)
			return
		}
		streams.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintln(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"default","name":"a","resourceVersion":"5","managedFields":[{"manager":"x"}]}}}`)
		_, _ = fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"6","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	shared := New(Options{Client: client})
	shared.Start(t.Context())
	defer shared.Shutdown()
	for range 3 {
		s := shared.NewScope(ScopeOptions{Name: "watchlist"})
		seen := newRecorder()
		addHandler(t, s.Core().V1().Pods().Informer(), seen)
		startAndSync(t, s)
		if adds, _ := seen.count(); adds != 1 {
			t.Errorf("handler saw %d pods, want 1", adds)
		}
		pod, err := s.Core().V1().Pods().Lister().Pods("default").Get("a")
		if err != nil || !Shrunk(pod) {
			t.Errorf("stored pod is not shrunk: %v, error %v", pod, err)
		}
		s.Close()
	}
	if lists.Load() != 0 || streams.Load() != 1 {
		t.Errorf("got %d lists and %d streaming watches, want 0 and 1", lists.Load(), streams.Load())
	}
}
