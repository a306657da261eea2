package informers

import (
	"context"
	"errors"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// feed hands the notifications of one informer to the handlers of all scopes. client-go alone would
// keep two goroutines and a ring of 1,024 slots for each handler, and wake both for each
// notification.
//
//  1. The feed is the only handler that client-go knows. It appends each notification to a list,
//     which every handler reads at its own pace. A handler that has read all has no goroutine, and
//     gets none for what it does not want.
//  2. A handler that joins is shown every object in the state that was passed on last, then
//     everything that follows: nothing is missing, and nothing comes twice.
//  3. It is synced when it has been shown all that the store contained when it joined. The store
//     can be ahead of the feed.
//  4. A notification is freed when every handler has read it. A handler that hangs keeps those
//     that it has not read, until it is removed.
type feed struct {
	informer source
	// queued is set when the informer has queued its initial list as a whole. Only the goroutine
	// that client-go delivers on uses it.
	queued bool
	// running counts the goroutines of the feed and of its handlers.
	running sync.WaitGroup
	// ended is set, under mu, when the informer has stopped.
	ended atomic.Bool

	mu sync.Mutex
	// ctx is that of the informer, nil until it runs.
	ctx context.Context
	// registration is nil until there is a handler.
	registration cache.ResourceEventHandlerRegistration
	// complete is set when the initial list has been passed on.
	complete bool
	handlers []*handler
	// reading counts the handlers that have a goroutine.
	reading int
	// shown are the objects in the state that was passed on last.
	shown map[cache.ObjectName]any
	// last is the end of the list.
	last *notification
	lags []*lag
}

// source is what a feed needs of an informer.
type source interface {
	AddEventHandlerWithOptions(cache.ResourceEventHandler, cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error)
	GetStore() cache.Store
	HasSyncedChecker() cache.DoneChecker
	IsStopped() bool
}

// notification is one call of every handler, or tells one of them that it is synced.
type notification struct {
	kind     kind
	old, obj any
	synced   *handler
	next     atomic.Pointer[notification]
}

type kind uint8

const (
	head kind = iota // of the list, before there is a notification
	listed
	added
	updated
	deleted
	synced
)

// lag is what the store was ahead of the feed when handlers joined.
type lag struct {
	// ahead are the states that have to be passed on, nil for an object that is gone.
	ahead    map[cache.ObjectName]any
	handlers []*handler
}

func newFeed(informer source) *feed {
	return &feed{informer: informer, shown: map[cache.ObjectName]any{}, last: &notification{kind: head}}
}

// begin is called before the informer runs, with the context that ends it.
func (f *feed) begin(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ctx = ctx
	f.awaitListLocked()
}

// end is called when the informer has stopped. It waits for handlers that are being called.
func (f *feed) end() {
	f.mu.Lock()
	f.ended.Store(true)
	f.mu.Unlock()
	f.running.Wait()
}

// join begins to call a handler, unless it has been removed.
func (f *feed) join(h *handler) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended.Load() || f.informer.IsStopped() {
		return errors.New("the informer has stopped")
	}
	if h.removed.Load() {
		return nil
	}
	if err := f.registerLocked(); err != nil {
		return err
	}
	f.handlers = append(f.handlers, h)
	h.at.Store(f.last)
	if len(f.shown) > 0 {
		h.first = make([]any, 0, len(f.shown))
		for _, obj := range f.shown {
			h.first = append(h.first, obj)
		}
		f.wakeLocked(h)
	}
	if f.complete {
		f.syncLocked(h)
	}
	return nil
}

// leave lets go of a handler that has been removed. It does not wait for a call in progress.
func (f *feed) leave(h *handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers = slices.DeleteFunc(f.handlers, func(other *handler) bool { return other == h })
	h.at.Store(nil)
	if !h.reading { // else it does so itself
		h.first = nil
	}
	f.freeLocked()
}

// registerLocked has client-go call the feed, from the first handler on.
func (f *feed) registerLocked() error {
	if f.registration != nil {
		return nil
	}
	ctx := f.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	var err error
	var asking sync.WaitGroup
	asking.Go(func() {
		pprof.SetGoroutineLabels(ctx) // what this starts is not a part of who adds the first handler
		f.registration, err = f.informer.AddEventHandlerWithOptions(f, cache.HandlerOptions{ResyncPeriod: ptr.To(time.Duration(0))})
	})
	asking.Wait()
	if err != nil {
		return err
	}
	f.awaitListLocked()
	return nil
}

// awaitListLocked waits on a goroutine, once the informer runs and has a handler, until the
// initial list has been passed on.
func (f *feed) awaitListLocked() {
	if f.ctx == nil || f.registration == nil {
		return
	}
	ctx, passed := f.ctx, f.registration.HasSyncedChecker().Done()
	f.running.Go(func() {
		pprof.SetGoroutineLabels(ctx)
		select {
		case <-passed:
		case <-ctx.Done():
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.complete = true
		f.syncLocked(slices.Clone(f.handlers)...)
	})
}

func (f *feed) OnAdd(obj any, isInInitialList bool) {
	if !isInInitialList {
		f.pass(&notification{kind: added, obj: obj})
		return
	}
	f.awaitQueued()
	f.pass(&notification{kind: listed, obj: obj})
}

func (f *feed) OnUpdate(old, obj any) { f.pass(&notification{kind: updated, old: old, obj: obj}) }

func (f *feed) OnDelete(obj any) { f.pass(&notification{kind: deleted, obj: obj}) }

// awaitQueued holds the first notification back until client-go has queued the last one of the
// initial list. client-go (0.36) counts queued against delivered ones and takes a handler that
// keeps up, so that the count is zero in between, for synced if it checks at the wrong time
// (synctrack.SingleFileTracker.Finished).
func (f *feed) awaitQueued() {
	if f.queued {
		return
	}
	f.queued = true
	f.mu.Lock() // not free before client-go has queued what the store contains
	ctx := f.ctx
	f.mu.Unlock()
	select {
	case <-f.informer.HasSyncedChecker().Done():
	case <-ctx.Done():
	}
}

// pass appends a notification to the list.
func (f *feed) pass(n *notification) {
	name, err := cache.DeletionHandlingObjectToName(n.obj)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended.Load() {
		return
	}
	kind, obj := n.kind, n.obj
	if len(f.handlers) > 0 {
		f.appendLocked(n)
	}
	switch {
	case err != nil: // not an API object: nothing is cached either
	case kind == deleted:
		delete(f.shown, name)
		f.caughtUpLocked(name, nil)
	default:
		f.shown[name] = obj
		f.caughtUpLocked(name, obj)
	}
}

func (f *feed) appendLocked(n *notification) {
	before := f.last
	before.next.Store(n)
	f.last = n
	for _, h := range f.handlers {
		switch {
		case h.reading:
		case h.wants(n):
			f.wakeLocked(h)
		case h.at.Load() == before:
			h.at.Store(n)
		}
	}
	f.freeLocked()
}

// freeLocked lets go of what the last notification shows once nobody reads any more.
func (f *feed) freeLocked() {
	if f.reading == 0 {
		f.last.old, f.last.obj, f.last.synced = nil, nil, nil
	}
}

// wakeLocked has a handler read.
func (f *feed) wakeLocked(h *handler) {
	if h.reading || !f.calls(h) {
		return
	}
	h.reading = true
	f.reading++
	f.running.Add(1)
	go h.read()
}

// calls reports whether a handler is to be called any more.
func (f *feed) calls(h *handler) bool { return !h.removed.Load() && !f.ended.Load() }

// rest reports that the goroutine of a handler can end: it has read all, was removed, or its
// informer has stopped.
func (f *feed) rest(h *handler) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := !f.calls(h)
	if at := h.at.Load(); !gone && at != nil && at.next.Load() != nil {
		return false
	}
	if gone {
		h.first = nil
		h.at.Store(nil)
	}
	h.reading = false
	f.reading--
	f.freeLocked()
	return true
}

// syncLocked tells handlers that they are synced once they have been shown what the store
// contains.
func (f *feed) syncLocked(handlers ...*handler) {
	if ahead := f.aheadLocked(); len(ahead) > 0 {
		f.lags = append(f.lags, &lag{ahead, handlers})
		return
	}
	f.tellLocked(handlers)
}

func (f *feed) tellLocked(handlers []*handler) {
	for _, h := range handlers {
		f.appendLocked(&notification{kind: synced, synced: h})
	}
}

// aheadLocked returns the states of the store that are yet to be passed on, nil for an object
// that is gone.
func (f *feed) aheadLocked() map[cache.ObjectName]any {
	ahead := map[cache.ObjectName]any{}
	stored := f.informer.GetStore().List()
	same := 0
	for _, obj := range stored {
		name, err := cache.ObjectToName(obj)
		if err != nil {
			continue
		}
		if f.shown[name] != obj {
			ahead[name] = obj
			continue
		}
		same++
	}
	if same == len(f.shown) {
		return ahead
	}
	there := make(map[cache.ObjectName]bool, len(stored))
	for _, obj := range stored {
		if name, err := cache.ObjectToName(obj); err == nil {
			there[name] = true
		}
	}
	for name := range f.shown {
		if !there[name] {
			ahead[name] = nil
		}
	}
	return ahead
}

// caughtUpLocked notes that a state was passed on.
func (f *feed) caughtUpLocked(name cache.ObjectName, obj any) {
	if len(f.lags) == 0 {
		return
	}
	f.lags = slices.DeleteFunc(f.lags, func(l *lag) bool {
		if awaited, lags := l.ahead[name]; lags && awaited == obj {
			delete(l.ahead, name)
		}
		if len(l.ahead) > 0 {
			return false
		}
		f.tellLocked(l.handlers)
		return true
	})
}
