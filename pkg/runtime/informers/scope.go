package informers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
)

// ErrClosed is the cause of a wait that ended because the scope was closed, and the error
// of adding a handler to a closed scope.
var ErrClosed = errors.New("the scope is closed")

// ScopeOptions configure a Scope.
type ScopeOptions struct {
	// Name is shown in status and errors; the name of the controller.
	Name string
	// OnPanic is called, once and on a goroutine of its own, with a *panicError when a
	// handler panicked, before a wait ends because of that. It may call Close. The panic is
	// logged with its stack in any case. Nil means no callback.
	OnPanic func(error)
	// Dry makes a scope that holds and starts informers and adds indexes but never calls
	// a handler. A standby keeps its caches warm with it. Registrations of its handlers
	// are synced when the informer is.
	Dry bool
	// Whole overrides Options.Whole for the scope. Nil means Options.Whole.
	Whole func(schema.GroupVersionResource) bool
	// Barrier decides what complete caches have to contain before the scope is ready. Nil
	// means nothing.
	Barrier Barrier
}

// Scope is the view that one instance of a controller has of the informers.
type Scope struct {
	*view
	informers *Informers
	name      string
	dry       bool
	whole     func(schema.GroupVersionResource) bool
	onPanic   func(error)

	// open ends, through end, when the scope is closed.
	open context.Context
	end  context.CancelCauseFunc
	// calls is held for reading while a handler is called, so that Close can wait for all
	// of them, those of handlers that have been removed included.
	calls sync.RWMutex
	// failed is set when a handler panicked; failure is closed once that was reported.
	failed  atomic.Bool
	failing sync.Once
	failure chan struct{}

	// waiters counts calls of WaitUntilReady.
	waiters atomic.Int32

	// resync wakes the resync goroutine, which resyncing counts.
	resync    chan struct{}
	resyncing sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	startDenied bool
	views       map[controller.Filter]*view
	held        map[key]*informer
	released    chan struct{}                        // closed, and replaced, when an informer is released
	forms       map[schema.GroupVersionResource]Form // of AnyFor
	handlers    map[*handler]struct{}
	period      time.Duration
	resyncerOn  bool
	barriers    []Barrier
	refused     error // see Err
}

var _ controller.Scope = (*Scope)(nil)

// panicError reports a panic in an event handler.
type panicError struct {
	// Scope is the name of the scope, Informer the kind the handler was added to.
	Scope, Informer string
	// Value is what the handler panicked with.
	Value any
	// Stack is the stack of the goroutine at that point.
	Stack []byte
}

// Error leaves out the stack.
func (e *panicError) Error() string {
	return fmt.Sprintf("event handler of %s for %s panicked: %v", e.Scope, e.Informer, e.Value)
}

func newPanicError(h *handler, value any) *panicError {
	return &panicError{Scope: h.scope.name, Informer: h.base.key.String(), Value: value, Stack: debug.Stack()}
}

// NewScope opens a scope. It must be closed.
func (i *Informers) NewScope(o ScopeOptions) *Scope {
	s := &Scope{
		informers: i,
		name:      o.Name,
		dry:       o.Dry,
		whole:     o.Whole,
		onPanic:   o.OnPanic,
		failure:   make(chan struct{}),
		resync:    make(chan struct{}, 1),
		views:     map[controller.Filter]*view{},
		held:      map[key]*informer{},
		released:  make(chan struct{}),
		handlers:  map[*handler]struct{}{},
	}
	if o.Barrier != nil {
		s.barriers = append(s.barriers, o.Barrier)
	}
	s.open, s.end = context.WithCancelCause(context.Background())
	s.view = &view{scope: s}
	s.views[controller.Filter{}] = s.view
	i.mu.Lock()
	defer i.mu.Unlock()
	i.scopes[s] = struct{}{}
	return s
}

// Close ends the scope: its handlers are removed, its resyncs stopped, and its references
// released. It then waits for handlers that are being called, so it must not be called from
// one. Listers and indexers obtained through the scope still read the cache. Further calls
// only wait.
func (s *Scope) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	handlers := slices.Collect(maps.Keys(s.handlers))
	s.mu.Unlock()

	s.end(ErrClosed)
	for _, h := range handlers {
		h.remove()
	}
	if first {
		s.informers.release(s)
	}
	// From here on no handler is called and no informer is held: a handler that hangs delays
	// Close, but keeps no informer alive.
	s.calls.Lock()
	s.calls.Unlock() //nolint:staticcheck // the point is to have waited
	s.resyncing.Wait()
	s.mu.Lock()
	clear(s.handlers)
	s.mu.Unlock()
}

// Err returns the first error of adding a handler or an index to an informer of the scope.
func (s *Scope) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// refuse keeps the first error for Err, and returns the one it is given.
func (s *Scope) refuse(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil {
		s.refused = err
	}
	return err
}

// Filtered returns the view of the objects that the filter selects.
func (s *Scope) Filtered(filter controller.Filter) informers.SharedInformerFactory {
	if filter == (controller.Filter{}) {
		return s
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, found := s.views[filter]
	if !found {
		v = &view{scope: s, filter: filter}
		s.views[filter] = v
	}
	return v
}

// MetadataFor returns the metadata informer of any resource.
func (s *Scope) MetadataFor(resource schema.GroupVersionResource) informers.GenericInformer {
	k := key{objectType: reflect.TypeFor[*metav1.PartialObjectMetadata](), resource: resource, form: Metadata}
	w := s.informerFor(k, func() (cache.SharedIndexInformer, func()) {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		return metadatainformer.NewFilteredMetadataInformer(
			s.informers.metadata, resource, metav1.NamespaceAll, 0, indexers, nil).Informer(), func() {}
	})
	return genericInformer{
		informer: w,
		lister:   metadatalister.NewRuntimeObjectShim(metadatalister.New(w.GetIndexer(), resource)),
	}
}

// informerFor returns the scope's informer for the key. A closed scope returns one that
// never runs, so that late requests are harmless.
func (s *Scope) informerFor(k key, create func() (cache.SharedIndexInformer, func())) *informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, found := s.held[k]; found {
		return w
	}
	if s.closed {
		raw, release := create()
		release()
		return &informer{scope: s, base: newBase(k, raw, nil, s.informers.clock)}
	}
	w := &informer{scope: s, base: s.informers.acquire(s, k, create)}
	s.held[k] = w
	return w
}

func (s *Scope) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.startDenied {
		return
	}
	bases := make([]*base, 0, len(s.held))
	for _, w := range s.held {
		bases = append(bases, w.base)
	}
	s.informers.start(bases)
}

// startOne starts one informer of the scope.
func (s *Scope) startOne(b *base) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && !s.startDenied {
		s.informers.start([]*base{b})
	}
}

func (s *Scope) refuseStart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startDenied = true
}

// startedInformers returns the started informers of a view; the scope's own view stands
// for all of them.
func (s *Scope) startedInformers(v *view) []*base {
	s.mu.Lock()
	defer s.mu.Unlock()
	var started []*base
	for k, w := range s.held {
		if (v == s.view || k.filter == v.filter) && s.informers.wanted(w.base) {
			started = append(started, w.base)
		}
	}
	return started
}

// untilClosed derives a context that also ends when the scope is closed.
func (s *Scope) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(s.open, func() { cancel(ErrClosed) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// panicked stops the scope's notifications and reports the first panic.
func (s *Scope) panicked(logger klog.Logger, err *panicError) {
	s.failing.Do(func() {
		logger.Error(err, "Event handler panicked, its scope gets no more notifications",
			"scope", s.name, "stack", string(err.Stack))
		go func() { // it may close the scope, which waits for the caller
			defer close(s.failure)
			if s.onPanic != nil {
				s.onPanic(err)
			}
		}()
	})
}
