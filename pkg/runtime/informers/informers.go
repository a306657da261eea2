package informers

import (
	"context"
	"runtime/pprof"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// DefaultGracePeriod is how long an informer outlives its last user by default. It spans
// a controller that is restarted with backoff, or disabled and enabled again.
const DefaultGracePeriod = 5 * time.Minute

// Options configure Informers.
type Options struct {
	// Client lists and watches typed objects, with the identity of all informers. A list
	// must be a consistent read, see rule 1. Required.
	Client kubernetes.Interface
	// Metadata lists and watches metadata-only objects. Required by MetadataFor only.
	Metadata metadata.Interface
	// Whole reports whether the process caches the whole objects of a resource, so that
	// AnyFor takes them instead of caching metadata besides. Nil means that it caches none.
	Whole func(schema.GroupVersionResource) bool
	// Failed is called when a list or watch failed, from any goroutine; it must not block.
	// Nil means no callback.
	Failed func()
	// Transforms are applied to typed objects before they are stored. Kinds that are not
	// listed lose their managedFields. Nil means defaultTransforms.
	Transforms Transforms
	// Clock drives the grace period and resyncs. Nil means the real one.
	Clock clock.Clock
	// Name is the value of the label "name" in the informer_* metrics. It must be unique
	// in the process. Empty means no metrics.
	Name string
}

// Informers owns the shared informers of the process.
type Informers struct {
	client     kubernetes.Interface
	metadata   metadata.Interface
	whole      func(schema.GroupVersionResource) bool
	failed     func()
	transforms Transforms
	grace      time.Duration
	clock      clock.Clock
	made       time.Time // a moment before; with it, times need not be wall clock times
	names      *metricNames

	// released wakes the reaper.
	released chan struct{}
	// running counts the goroutines that run informers, and the reaper.
	running sync.WaitGroup

	mu     sync.Mutex
	bases  map[key]*base
	scopes map[*Scope]struct{}
	// run is the context that informers run under; nil before Start.
	run      context.Context
	stop     context.CancelFunc
	shutDown bool
}

// New makes empty Informers. No request is sent before Start.
func New(o Options) *Informers {
	i := &Informers{
		client:     o.Client,
		metadata:   o.Metadata,
		whole:      o.Whole,
		failed:     o.Failed,
		transforms: o.Transforms,
		grace:      DefaultGracePeriod,
		clock:      o.Clock,
		names:      newMetricNames(o.Name),
		released:   make(chan struct{}, 1),
		bases:      map[key]*base{},
		scopes:     map[*Scope]struct{}{},
	}
	if i.failed == nil {
		i.failed = func() {}
	}
	if i.transforms == nil {
		i.transforms = defaultTransforms()
	}
	if i.clock == nil {
		i.clock = clock.RealClock{}
	}
	i.made = i.clock.Now().Add(-1)
	return i
}

// Start runs informers from now on, including those that scopes started before. They stop
// when ctx ends or Shutdown is called. Only the first call has an effect.
func (i *Informers) Start(ctx context.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run != nil || i.shutDown {
		return
	}
	i.run, i.stop = context.WithCancel(ctx)
	for _, b := range i.bases {
		if b.wanted {
			i.startLocked(b)
		}
	}
	run := i.run
	i.running.Go(func() { i.reapLoop(run) })
}

// Shutdown stops all informers and blocks until their goroutines have ended, those that
// deliver to handlers included. Scopes stay usable for reading. It may be called more
// than once.
func (i *Informers) Shutdown() {
	i.mu.Lock()
	i.shutDown = true
	if i.stop != nil {
		i.stop()
	}
	i.mu.Unlock()

	i.running.Wait()

	i.mu.Lock()
	defer i.mu.Unlock()
	i.names.close()
	for _, b := range i.bases {
		b.releaseName()
	}
}

// acquire returns the informer of the key, made by create if there is none, and records
// that the scope holds it.
func (i *Informers) acquire(s *Scope, k key, create func() (cache.SharedIndexInformer, func())) *base {
	i.mu.Lock()
	defer i.mu.Unlock()
	b, found := i.bases[k]
	if !found {
		informer, releaseName := create()
		b = newBase(k, informer, releaseName, i.clock)
		b.onFailure = i.failed
		b.configure(i.transformFor(k))
		i.bases[k] = b
	}
	b.refs[s] = struct{}{}
	return b
}

// release drops the references of the scope. Informers without references become idle; those
// of resources that are no longer served are stopped.
func (i *Informers) release(s *Scope) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.clock.Now()
	for k, b := range i.bases {
		if _, held := b.refs[s]; !held {
			continue
		}
		delete(b.refs, s)
		b.idleSince = now
		if len(b.refs) == 0 && b.unserved() {
			// It would keep sending requests during the grace period, and its cache is
			// useless.
			delete(i.bases, k)
			b.halt()
		}
	}
	delete(i.scopes, s)
	i.wakeReaper()
}

// start starts informers that are not running yet.
func (i *Informers) start(bases []*base) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, b := range bases {
		b.wanted = true
		i.startLocked(b)
	}
}

func (i *Informers) startLocked(b *base) {
	if b.stop != nil || i.run == nil || i.shutDown {
		return
	}
	logger := klog.FromContext(i.run).WithValues("informer", b.key.String())
	ctx, stop := context.WithCancel(klog.NewContext(i.run, logger))
	b.ctx, b.stop, b.started = ctx, stop, i.clock.Now()
	context.AfterFunc(ctx, func() { close(b.halted) })
	b.feed.begin(ctx)
	i.running.Go(func() {
		defer stop()
		pprof.SetGoroutineLabels(ctx) // they are shared, and not a part of who starts them
		b.informer.RunWithContext(ctx)
		stop()
		b.feed.end()
	})
}

// wanted reports whether the informer has been started, or will be by Start.
func (i *Informers) wanted(b *base) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return b.wanted
}

func (i *Informers) transformFor(k key) cache.TransformFunc {
	if transform, found := i.transforms[k.resource]; found && k.form != Metadata {
		return transform
	}
	return stripManagedFields
}
