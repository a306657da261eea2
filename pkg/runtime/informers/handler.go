package informers

import (
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// handler wraps the handler of a controller. It is also the registration that the controller
// gets.
type handler struct {
	scope *Scope
	base  *base
	next  cache.ResourceEventHandler
	// period is what the handler asked for; nil follows the scope.
	period *time.Duration
	// resynced is when the last resync began, at first when the handler was added.
	// Guarded by Scope.mu.
	resynced time.Time

	// listed is set when the initial list is queued as a whole. Only the goroutine that
	// client-go delivers notifications on uses it.
	listed bool
	// labelled is set when that goroutine carries the name of the scope.
	labelled bool

	// since is when the call in progress began, in nanoseconds; 0 if there is none.
	since atomic.Int64

	// gone is closed, and removed set, when the handler must not be called any more.
	gone    chan struct{}
	removed atomic.Bool

	// calling is held while next is called: it keeps resyncs and notifications apart.
	calling sync.Mutex

	// mu guards what client-go returned, nil before and after.
	mu           sync.Mutex
	registration cache.ResourceEventHandlerRegistration
	// ready is closed when there is a registration.
	ready chan struct{}
}

func newHandler(s *Scope, b *base, next cache.ResourceEventHandler, period *time.Duration) *handler {
	return &handler{
		scope:  s,
		base:   b,
		next:   next,
		period: period,
		gone:   make(chan struct{}),
		ready:  make(chan struct{}),
	}
}

func (h *handler) OnAdd(obj any, isInInitialList bool) {
	h.label()
	if isInInitialList && !h.listed {
		h.awaitInitialList()
	}
	h.call(func(next cache.ResourceEventHandler) { next.OnAdd(obj, isInInitialList) })
}

func (h *handler) OnUpdate(old, obj any) {
	h.label()
	h.call(func(next cache.ResourceEventHandler) { next.OnUpdate(old, obj) })
}

func (h *handler) OnDelete(obj any) {
	h.label()
	h.call(func(next cache.ResourceEventHandler) { next.OnDelete(obj) })
}

// label makes the goroutine that notifications are delivered on recognizable as one of the
// controller, in stacks and profiles, and leaves it the labels of the informers.
func (h *handler) label() {
	if h.labelled {
		return
	}
	h.labelled = true
	pprof.SetGoroutineLabels(pprof.WithLabels(h.base.ctx, pprof.Labels("controller", h.scope.name)))
}

// awaitInitialList holds the first notification back until client-go has queued the last one
// of the initial list. client-go (0.36) counts queued against delivered ones and takes a
// handler that keeps up, so that the count is zero in between, for synced if it checks at the
// wrong time (synctrack.SingleFileTracker.Finished).
func (h *handler) awaitInitialList() {
	h.listed = true
	for _, queued := range []<-chan struct{}{h.base.informer.HasSyncedChecker().Done(), h.ready} {
		select {
		case <-queued:
		case <-h.gone:
			return
		case <-h.scope.open.Done():
			return
		case <-h.base.halted:
			return
		}
	}
}

func (h *handler) call(f func(cache.ResourceEventHandler)) {
	if err := h.isolated(f); err != nil {
		h.scope.panicked(err)
	}
}

func (h *handler) isolated(f func(cache.ResourceEventHandler)) (failure *PanicError) {
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
	h.since.Store(h.scope.informers.clock.Now().UnixNano())
	defer h.since.Store(0)
	f(h.next)
	return nil
}

// HasSynced reports whether the handler has been shown the complete state of the cache.
func (h *handler) HasSynced() bool {
	h.mu.Lock()
	r := h.registration
	h.mu.Unlock()
	return r != nil && r.HasSynced()
}

// HasSyncedChecker is done when the handler has been shown the complete state of the cache;
// while the handler is still being added, when it has been added.
func (h *handler) HasSyncedChecker() cache.DoneChecker {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.registration == nil {
		return adding{h}
	}
	return h.registration.HasSyncedChecker()
}

// adding is done when client-go has accepted the handler.
type adding struct{ h *handler }

func (a adding) Name() string          { return "event handler for " + a.h.base.key.String() }
func (a adding) Done() <-chan struct{} { return a.h.ready }

// registered stores what client-go returned, and unregisters it immediately if the handler
// was removed while it was being added.
func (h *handler) registered(r cache.ResourceEventHandlerRegistration) {
	h.mu.Lock()
	h.registration = r
	close(h.ready)
	h.mu.Unlock()
	if h.removed.Load() {
		h.unregister()
	}
}

// remove makes sure that no further call begins and ends the goroutines of the handler.
// It does not wait for a call in progress.
func (h *handler) remove() {
	if !h.removed.CompareAndSwap(false, true) {
		return
	}
	close(h.gone)
	h.base.handlers.Add(-1)
	h.unregister()
}

// unregister may be called twice, by remove and by registered.
func (h *handler) unregister() {
	h.mu.Lock()
	r := h.registration
	h.mu.Unlock()
	// An informer that has stopped ends its handlers itself, holding its lock: a handler that
	// removes itself would deadlock.
	if r == nil || h.base.informer.IsStopped() {
		return
	}
	if err := h.base.informer.RemoveEventHandler(r); err != nil {
		klog.Background().Error(err, "removing an event handler", "informer", h.base.key.String(), "scope", h.scope.name)
	}
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
