package informers

import (
	"context"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Selective is a handler that needs some notifications only. A goroutine is woken up for these; while it runs, the
// handler is called for all. It is asked on the goroutine of the informer, under a lock: its methods must be quick,
// depend on nothing but the objects, and not block.
type Selective interface {
	WantsAdd(obj any) bool
	WantsUpdate(old, obj any) bool
	WantsDelete(obj any) bool
}

// handler wraps the handler of a controller. It is also the registration that the controller
// gets.
type handler struct {
	scope *Scope
	base  *base
	next  cache.ResourceEventHandler
	// selects is next if it is selective, else nil.
	selects Selective
	// period is what the handler asked for; nil follows the scope.
	period *time.Duration
	// resynced is when the last resync began, at first when the handler was added.
	// Guarded by Scope.mu.
	resynced time.Time

	// labels are those of the goroutine that it is called on. Only that goroutine uses them.
	labels context.Context

	// Guarded by feed.mu; first belongs to the goroutine while there is one, and only that moves at on.
	reading bool
	// first are the objects that it is shown first.
	first []any
	// at is the notification that it has read last, nil once the handler is removed.
	at atomic.Pointer[notification]
	// synced is closed when it has been shown the complete state of the cache.
	synced chan struct{}

	// since is when the call in progress began, in nanoseconds since Informers.made; 0 if there is none.
	since atomic.Int64

	// gone is closed, and removed set, when the handler must not be called any more.
	gone    chan struct{}
	removed atomic.Bool

	// calling is held while next is called: it keeps resyncs and notifications apart.
	calling sync.Mutex
}

func newHandler(s *Scope, b *base, next cache.ResourceEventHandler, period *time.Duration) *handler {
	h := &handler{
		scope:  s,
		base:   b,
		next:   next,
		period: period,
		synced: make(chan struct{}),
		gone:   make(chan struct{}),
	}
	h.selects, _ = next.(Selective)
	return h
}

// read delivers what there is to read, on a goroutine of its own.
func (h *handler) read() {
	feed := h.base.feed
	defer feed.running.Done() // also if a handler ends its goroutine
	h.label()
	shown := notification{kind: listed}
	for _, shown.obj = range h.first {
		if h.wants(&shown) && feed.calls(h) {
			h.deliver(&shown)
		}
	}
	h.first = nil
	for {
		for h.step() {
		}
		if feed.rest(h) {
			return
		}
	}
}

// step delivers the next notification, and reports whether there was one. During the call the goroutine must not refer to
// the notification: it would keep all that come after it if the call does not return.
func (h *handler) step() bool {
	at := h.at.Load()
	if at == nil || !h.base.feed.calls(h) {
		return false
	}
	n := at.next.Load()
	if n == nil || !h.at.CompareAndSwap(at, n) {
		return false
	}
	h.deliver(n)
	return true
}

// wants reports whether the handler has to be called for a notification.
func (h *handler) wants(n *notification) (wanted bool) {
	if n.kind == synced {
		return n.synced == h
	}
	if h.selects == nil {
		return true
	}
	defer func() {
		if recover() != nil {
			wanted = true // the call will panic as well, where that is reported
		}
	}()
	switch n.kind {
	case listed, added:
		return h.selects.WantsAdd(n.obj)
	case updated:
		return h.selects.WantsUpdate(n.old, n.obj)
	case deleted:
		return h.selects.WantsDelete(n.obj)
	case head, synced:
	}
	return true
}

func (h *handler) deliver(n *notification) {
	kind, old, obj := n.kind, n.old, n.obj
	switch kind {
	case listed, added:
		h.call(func(next cache.ResourceEventHandler) { next.OnAdd(obj, kind == listed) })
	case updated:
		h.call(func(next cache.ResourceEventHandler) { next.OnUpdate(old, obj) })
	case deleted:
		h.call(func(next cache.ResourceEventHandler) { next.OnDelete(obj) })
	case synced:
		if n.synced == h {
			close(h.synced)
		}
	case head:
	}
}

// label makes the goroutine recognizable as one of the controller, in stacks and profiles, and
// leaves it the labels of the informers.
func (h *handler) label() {
	if h.labels == nil {
		h.labels = pprof.WithLabels(h.base.ctx, pprof.Labels("controller", h.scope.name))
	}
	pprof.SetGoroutineLabels(h.labels)
}

func (h *handler) call(f func(cache.ResourceEventHandler)) {
	if err := h.isolated(f); err != nil {
		h.scope.panicked(klog.FromContext(h.base.ctx), err)
	}
}

func (h *handler) isolated(f func(cache.ResourceEventHandler)) (failure *panicError) {
	h.calling.Lock()
	defer h.calling.Unlock()
	h.scope.calls.RLock()
	defer h.scope.calls.RUnlock()
	if h.removed.Load() || h.scope.failed.Load() {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			h.scope.failed.Store(true)
			failure = newPanicError(h, r)
		}
	}()
	h.since.Store(int64(h.scope.informers.clock.Since(h.scope.informers.made)))
	defer h.since.Store(0)
	f(h.next)
	return nil
}

// HasSynced reports whether the handler has been shown the complete state of the cache.
func (h *handler) HasSynced() bool { return cache.IsDone(h) }

// HasSyncedChecker is done when the handler has been shown the complete state of the cache.
func (h *handler) HasSyncedChecker() cache.DoneChecker { return h }

// Name and Done make the handler its own cache.DoneChecker.
func (h *handler) Name() string { return "event handler for " + h.base.key.String() }

// Done is closed when the handler is synced.
func (h *handler) Done() <-chan struct{} { return h.synced }

// remove makes sure that no further call begins. It does not wait for a call in progress.
func (h *handler) remove() {
	if !h.removed.CompareAndSwap(false, true) {
		return
	}
	close(h.gone)
	h.base.handlers.Add(-1)
	h.base.feed.leave(h)
}

// adopt records a handler that is about to be added.
func (s *Scope) adopt(h *handler) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	h.resynced = s.informers.clock.Now()
	h.base.handlers.Add(1)
	s.handlers[h] = struct{}{}
	s.rescheduleLocked()
	return nil
}

// drop removes a handler permanently.
func (s *Scope) drop(h *handler) {
	h.remove() // first: Close relies on every handler being listed or removed
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handlers, h)
}
