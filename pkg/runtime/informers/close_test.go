package informers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/await"
	"kcmd.dev/test/fakeclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReopeningLeaksNothingAndSendsNoRequest(t *testing.T) {
	h := newHarness(t, pods(20)...)
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	cycle := func() {
		s := h.NewScope(ScopeOptions{Name: "cycle"})
		s.SetResyncPeriod(time.Hour)
		podInformer := s.Core().V1().Pods()
		if err := podInformer.Informer().AddIndexers(cache.Indexers{"node": byNode}); err != nil {
			t.Fatal(err)
		}
		seen := newRecorder()
		addHandler(t, podInformer.Informer(), seen)
		addHandler(t, s.Filtered(controller.Filter{LabelSelector: "app=p1"}).Core().V1().Pods().Informer(), newRecorder())
		addHandler(t, s.MetadataFor(widgets).Informer(), newRecorder())
		startAndSync(t, s)
		if adds, _ := seen.count(); adds != 20 {
			t.Fatalf("handler was shown %d of 20 pods", adds)
		}
		s.Close()
	}
	cycle()
	warm := h.goroutines(map[string]int{"pods": 2, "widgets": 1})
	for range 1000 {
		cycle()
	}
	if lists, watches := h.requests("list", "pods"), h.requests("watch", "pods"); lists != 2 || watches != 2 {
		t.Errorf("got %d lists and %d watches of pods, want 2 of each: one for all pods and one for the filtered ones", lists, watches)
	}
	if got := len(h.client.Actions()) + len(h.meta.Actions()); got != 6 {
		t.Errorf("got %d requests, want a list and a watch of each of 3 informers: %v %v", got, h.client.Actions(), h.meta.Actions())
	}
	if got, want := h.snapshot(), (snapshot{informers: 3, running: 3}); got != want {
		t.Errorf("left behind %+v, want %+v", got, want)
	}
	goleak.VerifyNone(t, warm)
}

func TestCloseWaitsForHandlersAndEndsThem(t *testing.T) {
	h := newHarness(t, pods(100)...)
	s := h.open(ScopeOptions{Name: "closing"})
	entered, leave := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(leave) })
	t.Cleanup(release)
	var running, calls atomic.Int32
	addHandler(t, s.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		running.Add(1)
		if calls.Add(1) == 1 {
			close(entered)
			<-leave
		}
		running.Add(-1)
	}})
	s.StartWithContext(t.Context())
	<-entered

	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	// The scope lets go of everything before it waits for the handler.
	eventually(t, "the references to go", func() bool { return h.snapshot().handlers == 0 && h.snapshot().scopes == 0 })
	select {
	case <-closed:
		t.Fatal("Close returned while a handler was running")
	default:
	}
	release()
	<-closed
	if got := running.Load(); got != 0 {
		t.Errorf("%d calls are running after Close", got)
	}
	h.create(pod("late"))
	observer := h.open(ScopeOptions{Name: "observer"})
	seen := newRecorder()
	addHandler(t, observer.Core().V1().Pods().Informer(), seen)
	startAndSync(t, observer)
	eventually(t, "the late pod", func() bool { adds, _ := seen.count(); return adds == 101 })
	if got := calls.Load(); got != 1 {
		t.Errorf("handler was called %d times, want only the call that was running at Close", got)
	}
}

// TestCloseWhileAHandlerIsAdded does step by step what AddEventHandler does, with Close
// in the middle.
func TestCloseWhileAHandlerIsAdded(t *testing.T) {
	h := newHarness(t, pods(3)...)
	warm := h.open(ScopeOptions{Name: "warm"})
	warm.Core().V1().Pods().Informer()
	startAndSync(t, warm)
	before := h.goroutines(map[string]int{"pods": 1})

	s := h.open(ScopeOptions{Name: "adding"})
	w := s.Core().V1().Pods().Informer().(*informer)
	adding := newHandler(s, w.base, cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { t.Error("called after Close") },
	}, nil)
	if err := s.adopt(adding); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := w.base.feed.join(adding); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)

	if err := s.adopt(newHandler(s, w.base, newRecorder(), nil)); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed scope took a handler: %v", err)
	}
	if got := h.snapshot().handlers; got != 0 {
		t.Errorf("%d handlers are counted", got)
	}
}

// TestRemovedHandlerIsWaitedForToo pins that Close knows of calls of handlers that were
// removed while they ran.
func TestRemovedHandlerIsWaitedForToo(t *testing.T) {
	h := newHarness(t, pods(1)...)
	s := h.open(ScopeOptions{Name: "removed"})
	informer := s.Core().V1().Pods().Informer()
	entered, leave := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(leave) })
	t.Cleanup(release)
	var left atomic.Bool
	registered := addHandler(t, informer, cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		close(entered)
		<-leave
		left.Store(true)
	}})
	s.StartWithContext(t.Context())
	<-entered
	if err := informer.RemoveEventHandler(registered); err != nil {
		t.Fatal(err)
	}
	closed := make(chan bool)
	go func() {
		s.Close()
		closed <- left.Load()
	}()
	eventually(t, "the scope to let go", func() bool { return h.snapshot().scopes == 0 })
	release()
	if !<-closed {
		t.Error("Close returned while a removed handler was running")
	}
}

func TestClosedScopeIsHarmless(t *testing.T) {
	h := newHarness(t, pods(3)...)
	s := h.open(ScopeOptions{Name: "closed"})
	informer := s.Core().V1().Pods().Informer()
	lister := s.Core().V1().Pods().Lister()
	handler := addHandler(t, informer, newRecorder())
	startAndSync(t, s)
	s.Close()
	s.Close()

	list, err := lister.Pods("default").List(labels.Everything())
	if err != nil || len(list) != 3 {
		t.Errorf("lister of a closed scope returned %d objects and error %v, want 3", len(list), err)
	}
	if _, err := informer.AddEventHandler(newRecorder()); !errors.Is(err, ErrClosed) {
		t.Errorf("adding a handler returned %v, want ErrClosed", err)
	}
	if err := informer.RemoveEventHandler(handler); err != nil {
		t.Errorf("removing a handler again: %v", err)
	}
	if !informer.IsStopped() {
		t.Error("informer of a closed scope is not stopped")
	}
	if s.WaitUntilReady(t.Context()) || s.Ready() {
		t.Error("handlers of a closed scope are synced")
	}
	nodes := s.Core().V1().Nodes()
	if list, err := nodes.Lister().List(labels.Everything()); err != nil || len(list) != 0 {
		t.Errorf("late lister returned %v, %v", list, err)
	}
	s.StartWithContext(t.Context())
	if got := h.snapshot(); got.informers != 1 {
		t.Errorf("a closed scope made an informer: %+v", got)
	}
	if result := s.WaitForCacheSyncWithContext(t.Context()); result.Err != nil && !errors.Is(result.Err, ErrClosed) {
		t.Errorf("waiting on a closed scope: %v", result.Err)
	}
}

func TestPanicIsIsolated(t *testing.T) {
	h := newHarness(t, pods(5)...)
	reported := make(chan error, 10)
	var bad *Scope
	bad = h.open(ScopeOptions{Name: "bad", OnPanic: func(err error) {
		bad.Close()
		reported <- err
	}})
	good := h.open(ScopeOptions{Name: "good"})
	seen := newRecorder()
	addHandler(t, good.Core().V1().Pods().Informer(), seen)
	for range 3 {
		addHandler(t, bad.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { panic("boom") },
		})
	}
	bad.StartWithContext(t.Context())
	startAndSync(t, good)

	err := <-reported
	var failure *panicError
	if !errors.As(err, &failure) {
		t.Fatalf("reported %T, want *panicError", err)
	}
	if failure.Scope != "bad" || failure.Value != "boom" || !strings.Contains(string(failure.Stack), "TestPanicIsIsolated") {
		t.Errorf("report %v does not say who panicked where:\n%s", failure, failure.Stack)
	}
	if bad.Ready() || bad.WaitUntilReady(t.Context()) {
		t.Error("handlers are synced although one panicked")
	}
	h.create(pod("after"))
	eventually(t, "the other scope to go on", func() bool { adds, _ := seen.count(); return adds == 6 })
	await.Stays(t, "it was reported once", 50*time.Millisecond, func(context.Context) error {
		select {
		case err := <-reported:
			return err
		default:
			return nil
		}
	})
}

// Pins MGR-166.
func TestThePanicOfAHandlerIsLoggedWithItsStack(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
	i := New(Options{Client: fakeclient.New(pods(1)...)})
	i.Start(klog.NewContext(t.Context(), logger))
	t.Cleanup(i.Shutdown)
	reported := make(chan struct{})
	s := i.NewScope(ScopeOptions{Name: "bad", OnPanic: func(error) { close(reported) }})
	t.Cleanup(s.Close)
	addHandler(t, s.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("boom") }})
	s.StartWithContext(t.Context())
	<-reported
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if !strings.Contains(log, "TestThePanicOfAHandlerIsLoggedWithItsStack.func") {
		t.Errorf("the log does not say where it was:\n%s", log)
	}
}

// TestAPanicIsReportedBeforeAWaitEnds: a controller that waits returns then, and cannot say why. Pins MGR-166.
func TestAPanicIsReportedBeforeAWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, pods(1)...)
		reporting, reported := make(chan struct{}), make(chan struct{})
		s := h.open(ScopeOptions{Name: "bad", Barrier: newWall(), OnPanic: func(error) {
			close(reporting)
			<-reported
		}})
		addHandler(t, s.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("boom") }})
		ended := make(chan bool, 1)
		go func() { ended <- s.WaitUntilReady(t.Context()) }()
		s.StartWithContext(t.Context())
		<-reporting
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("the wait has ended before the panic was reported")
		}
		close(reported)
		if <-ended {
			t.Error("ready although a handler panicked")
		}
	})
}

func TestPanicInResyncMayCloseTheScope(t *testing.T) {
	h := newHarness(t, pods(1)...)
	closed := make(chan struct{})
	var s *Scope
	s = h.open(ScopeOptions{Name: "resync", OnPanic: func(error) {
		s.Close()
		close(closed)
	}})
	s.SetResyncPeriod(time.Minute)
	addHandler(t, s.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, _ any) { panic("boom") },
	})
	startAndSync(t, s)
	eventually(t, "the resync timer", h.clock.HasWaiters)
	h.clock.Step(time.Minute)
	h.asTimePasses("the scope to be closed", func() bool {
		select {
		case <-closed:
			return true
		default:
			return false
		}
	})
}
