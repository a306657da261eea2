package informers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// Form is how much of an object is cached.
type Form string

const (
	// Typed objects are whole, except for what the transform of the kind drops.
	Typed Form = "typed"
	// Metadata objects are metav1.PartialObjectMetadata.
	Metadata Form = "metadata"
)

// repeatErrorAfter is how often a watch error that stays the same is logged at level 0.
const repeatErrorAfter = 10 * time.Minute

// key identifies an informer. Typed informers are told apart by Go type, as in client-go.
type key struct {
	objectType reflect.Type
	resource   schema.GroupVersionResource
	form       Form
	filter     controller.Filter
}

func (k key) String() string {
	name := k.resource.GroupResource().String()
	if k.resource.Resource == "" {
		name = k.objectType.String()
	}
	return name + describe(k.filter)
}

// base is a shared informer and its state.
type base struct {
	key      key
	informer cache.SharedIndexInformer
	feed     *feed
	clock    clock.PassiveClock
	handlers atomic.Int64
	// onFailure is called when a list or watch failed; nil if there is no callback.
	onFailure func()
	// ctx is that of the running informer; set before it runs, and not read before a notification.
	ctx context.Context
	// halted is closed when the informer has been told to stop.
	halted chan struct{}

	// Guarded by Informers.mu.
	refs      map[*Scope]struct{}
	wanted    bool               // a scope started it
	stop      context.CancelFunc // nil until it runs
	started   time.Time          // when it was
	idleSince time.Time          // when the last reference went
	freeName  func()             // gives back the name in metrics; nil once done

	// indexMu makes looking up and adding an index one step.
	indexMu sync.Mutex
	indexes cache.Indexers

	errorMu sync.Mutex
	failure failure
}

// failure is the newest error of an informer.
type failure struct {
	err    error
	at     time.Time
	logged time.Time
	// version is what the reflector had reached. A watch error is over once it has made
	// progress; that of an index is lasting, since objects are missing from it.
	version string
	lasting bool
}

func newBase(k key, informer cache.SharedIndexInformer, freeName func(), c clock.PassiveClock) *base {
	return &base{
		key:      k,
		informer: informer,
		feed:     newFeed(informer),
		clock:    c,
		halted:   make(chan struct{}),
		refs:     map[*Scope]struct{}{},
		freeName: freeName,
		indexes:  maps.Clone(informer.GetIndexer().GetIndexers()),
	}
}

// configure sets what client-go only accepts before an informer is started.
func (b *base) configure(transform cache.TransformFunc) {
	err := errors.Join(
		b.informer.SetTransform(transform),
		b.informer.SetWatchErrorHandlerWithContext(b.watchFailed),
	)
	if err != nil {
		klog.Background().Error(err, "Failed to configure an informer that was started elsewhere: "+
			"it caches whole objects, and its errors are not shown", "informer", b.key.String())
	}
}

// halt stops the informer permanently. It does not wait.
func (b *base) halt() {
	if b.stop != nil {
		b.stop()
	}
	b.releaseName()
}

func (b *base) releaseName() {
	if b.freeName != nil {
		b.freeName()
		b.freeName = nil
	}
}

// addIndexers adds the indexes whose names are new.
func (b *base) addIndexers(indexers cache.Indexers) error {
	b.indexMu.Lock()
	defer b.indexMu.Unlock()
	missing := cache.Indexers{}
	for name, index := range indexers {
		if _, known := b.indexes[name]; !known {
			missing[name] = b.isolated(name, index)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := b.informer.AddIndexers(missing); err != nil {
		return fmt.Errorf("adding indexes to the informer for %s: %w", b.key, err)
	}
	if b.indexes == nil {
		b.indexes = cache.Indexers{}
	}
	maps.Copy(b.indexes, missing)
	return nil
}

// indexers returns a copy: the map inside the store changes without notice.
func (b *base) indexers() cache.Indexers {
	b.indexMu.Lock()
	defer b.indexMu.Unlock()
	return maps.Clone(b.indexes)
}

// isolated keeps a failing index function from ending the process, which is what the
// store does on an error.
func (b *base) isolated(name string, index cache.IndexFunc) cache.IndexFunc {
	var once sync.Once // it can fail for every object
	return func(obj any) (values []string, err error) {
		defer func() {
			if r := recover(); r != nil {
				values = nil
				err = fmt.Errorf("panic: %v", r)
			}
			if err != nil {
				err = fmt.Errorf("computing index %q: %w", name, err)
				b.note(failure{err: err, lasting: true})
				once.Do(func() {
					klog.Background().Error(err, "Failed to compute an index, objects are missing from it", "informer", b.key.String())
				})
				values, err = nil, nil
			}
		}()
		return index(obj)
	}
}

// watchFailed is called by the reflector when a list or watch ended with an error. It
// tries again with backoff whatever happens here.
func (b *base) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	logger := klog.FromContext(ctx)
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		logger.V(4).Info("Watch expired", "err", err)
	case errors.Is(err, io.EOF):
		// The API server ended the watch, as it does routinely.
	case errors.Is(err, io.ErrUnexpectedEOF):
		logger.V(1).Info("Watch closed unexpectedly", "err", err)
	default:
		b.failed(logger, failure{err: fmt.Errorf("watching: %w", err), version: r.LastSyncResourceVersion()})
		if b.onFailure != nil {
			b.onFailure()
		}
	}
}

// failed records an error and logs it, at level 0 only if it is new.
func (b *base) failed(logger klog.Logger, f failure) {
	if b.note(f) {
		logger.Error(f.err, "Informer failed to list or watch", "informer", b.key.String())
		return
	}
	logger.V(4).Info("Informer failed to list or watch again", "informer", b.key.String(), "err", f.err)
}

// note records an error and reports whether it differs from the one before or was the
// same for long.
func (b *base) note(f failure) (news bool) {
	b.errorMu.Lock()
	defer b.errorMu.Unlock()
	f.at = b.clock.Now()
	f.logged = b.failure.logged
	news = b.failure.err == nil || b.failure.err.Error() != f.err.Error() || f.at.Sub(f.logged) >= repeatErrorAfter
	if news {
		f.logged = f.at
	}
	b.failure = f
	return news
}

// unserved reports whether the newest error is that the API server does not serve the
// resource.
func (b *base) unserved() bool {
	last, failing := b.lastFailure()
	return failing && apierrors.IsNotFound(last.err)
}

// lags reports whether the cache does not follow what happens: the newest list or watch failed.
func (b *base) lags() bool {
	last, failing := b.lastFailure()
	return failing && !last.lasting
}

// lastFailure returns the newest error, unless the reflector has recovered from it.
func (b *base) lastFailure() (failure, bool) {
	b.errorMu.Lock()
	last := b.failure
	b.errorMu.Unlock()
	if last.err == nil {
		return failure{}, false
	}
	if !last.lasting && last.version != b.informer.LastSyncResourceVersion() {
		return failure{}, false
	}
	return last, true
}
