package informers

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Pins MGR-171 and WL-2.
func TestResyncFollowsTheScope(t *testing.T) {
	h := newHarness(t, pods(4)...)
	s := h.open(ScopeOptions{Name: "resync"})
	s.SetResyncPeriod(time.Hour)
	informer := s.Core().V1().Pods().Informer()
	follows, never, own := newRecorder(), newRecorder(), newRecorder()
	addHandler(t, informer, follows)
	if _, err := informer.AddEventHandlerWithResyncPeriod(never, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandlerWithResyncPeriod(own, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	startAndSync(t, s)
	step := func(d time.Duration) {
		t.Helper()
		eventually(t, "the resync timer", h.clock.HasWaiters)
		h.clock.Step(d)
	}
	expect := func(what string, wantFollows, wantOwn int) {
		t.Helper()
		h.asTimePasses(what, func() bool { return follows.resynced() == wantFollows && own.resynced() == wantOwn })
	}

	step(10 * time.Minute)
	expect("the handler with its own period", 0, 4)
	step(50 * time.Minute)
	expect("both handlers", 4, 8)

	// Longer: half an hour later nothing is due; shorter: due at once.
	s.SetResyncPeriod(2 * time.Hour)
	step(30 * time.Minute)
	expect("no resync at the longer period", 4, 12)
	s.SetResyncPeriod(20 * time.Minute)
	expect("a resync because of the shorter period", 8, 12)
	s.SetResyncPeriod(0)
	step(24 * time.Hour)
	expect("no resync without a period", 8, 16)

	if never.resynced() != 0 {
		t.Error("a handler with period 0 was resynced")
	}
	if got := h.requests("list", "pods"); got != 1 {
		t.Errorf("resyncs sent %d lists", got-1)
	}
}

// A handler has the period of its scope, too, if the informer has run for long, with handlers of a longer period.
// Pins NS-55.
func TestALaterScopeHasItsOwnResyncPeriod(t *testing.T) {
	h := newHarness(t, pods(2)...)
	open := func(name string, period time.Duration) (*Scope, *recorder) {
		s, seen := h.open(ScopeOptions{Name: name}), newRecorder()
		s.SetResyncPeriod(period)
		addHandler(t, s.Core().V1().Pods().Informer(), seen)
		startAndSync(t, s)
		return s, seen
	}
	_, first := open("first", 12*time.Hour)
	for range 2 {
		later, seen := open("later", 5*time.Minute)
		for n := range 3 {
			before := h.clock.Now()
			h.asTimePasses("a resync", func() bool { return seen.resynced() == 2*(n+1) })
			if took := h.clock.Since(before); took > 6*time.Minute {
				t.Errorf("the next resync was %v later", took)
			}
		}
		later.Close()
	}
	if got := first.resynced(); got != 0 {
		t.Errorf("the first handler was resynced with %d objects", got)
	}
}

func TestResyncGoroutineExistsOnlyWhileNeeded(t *testing.T) {
	h := newHarness(t, pods(1)...)
	s := h.open(ScopeOptions{Name: "timer"})
	seen := newRecorder()
	addHandler(t, s.Core().V1().Pods().Informer(), seen)
	startAndSync(t, s)
	if h.clock.HasWaiters() {
		t.Fatal("a timer runs although no handler has a period")
	}
	s.SetResyncPeriod(time.Minute)
	eventually(t, "the resync timer", h.clock.HasWaiters)
	s.SetResyncPeriod(0)
	eventually(t, "the resync timer to go", func() bool { return !h.clock.HasWaiters() })
	s.resyncing.Wait()
	s.SetResyncPeriod(time.Millisecond) // raised to the minimum
	eventually(t, "the resync timer to come back", h.clock.HasWaiters)
	h.clock.Step(minResyncPeriod)
	h.asTimePasses("a resync", func() bool { return seen.resynced() > 0 })
	s.Close()
	if h.clock.HasWaiters() && h.snapshot().informers == 0 {
		t.Error("a timer survived Close")
	}
}

func TestResyncAndNotificationsDoNotOverlap(t *testing.T) {
	h := newHarness(t, pods(50)...)
	s := h.open(ScopeOptions{Name: "overlap"})
	s.SetResyncPeriod(time.Second)
	var running, resyncs atomic.Int32
	check := func() {
		if running.Add(1) != 1 {
			t.Error("two calls of one handler at a time")
		}
		runtime.Gosched()
		running.Add(-1)
	}
	informer := s.Core().V1().Pods().Informer()
	addHandler(t, informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { check() },
		UpdateFunc: func(_, _ any) { check(); resyncs.Add(1) },
	})
	startAndSync(t, s)
	for i := range 50 {
		h.clock.Step(time.Second)
		h.create(pod("new" + string(rune('A'+i))))
	}
	eventually(t, "every pod and a resync", func() bool {
		h.clock.Step(time.Second)
		return len(informer.GetStore().ListKeys()) == 100 && resyncs.Load() > 100
	})
}

// TestResyncNeverShowsADeletedObject pins rule 7: after its delete a handler hears of an
// object only when there is a new one.
func TestResyncNeverShowsADeletedObject(t *testing.T) {
	h := newHarness(t, pods(1)...)
	s := h.open(ScopeOptions{Name: "deleted"})
	informer := s.Core().V1().Pods().Informer()
	entered, leave := make(chan struct{}), make(chan struct{})
	var blocked, busy atomic.Bool
	var updates, deletes atomic.Int32
	addHandler(t, informer, cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) {
			updates.Add(1)
			if busy.Load() {
				t.Error("resynced while the handler was running")
			}
			if keyOf(obj) == "default/p0" {
				t.Error("resynced an object that is gone")
			}
		},
		AddFunc: func(any) {
			if blocked.Load() {
				busy.Store(true)
				close(entered)
				<-leave
				busy.Store(false)
			}
		},
		DeleteFunc: func(any) { deletes.Add(1) },
	})
	startAndSync(t, s)
	// While the handler is busy a resync begins, and the object goes.
	blocked.Store(true)
	h.create(pod("busy"))
	<-entered
	resynced := make(chan struct{})
	go func() {
		for handler := range s.handlers {
			handler.resync()
		}
		close(resynced)
	}()
	if err := h.client.Tracker().Delete(podsResource, "default", "p0"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the object to leave the cache", func() bool { return len(informer.GetStore().ListKeys()) == 1 })
	close(leave)
	<-resynced
	eventually(t, "the delete", func() bool { return deletes.Load() == 1 })
	if got := updates.Load(); got != 1 {
		t.Errorf("%d objects were resynced, want the one that is left", got)
	}
}
