package informers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// informer is the shared informer as a scope returns it, with handlers that belong to the
// scope.
type informer struct {
	scope *Scope
	base  *base
}

var _ cache.SharedIndexInformer = (*informer)(nil)

// AddEventHandler adds a handler that is resynced at the period of the scope.
func (w *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return w.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with a period of its own; zero means no
// resync.
func (w *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return w.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler. A nil ResyncPeriod follows the scope. The logger is not used.
func (w *informer) AddEventHandlerWithOptions(next cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	if w.scope.open.Err() != nil {
		return nil, w.notAdded(ErrClosed)
	}
	if w.scope.dry {
		return registration{w.base.informer}, nil
	}
	h := newHandler(w.scope, w.base, next, o.ResyncPeriod)
	if err := w.scope.adopt(h); err != nil {
		return nil, w.notAdded(err)
	}
	if err := w.base.feed.join(h); err != nil {
		w.scope.drop(h)
		return nil, w.notAdded(err)
	}
	return h, nil
}

// notAdded returns the error of a handler that could not be added.
func (w *informer) notAdded(err error) error {
	return w.scope.refuse(fmt.Errorf("adding a handler to the informer for %s: %w", w.base.key, err))
}

// RemoveEventHandler removes a handler of this scope. It does not wait for a call in
// progress, so handlers may remove themselves.
func (w *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	switch h := handle.(type) {
	case *handler:
		if h.base != w.base || h.scope != w.scope {
			return fmt.Errorf("removing a handler: it was not added to the informer for %s", w.base.key)
		}
		w.scope.drop(h)
		return nil
	case registration: // of a dry scope
		return nil
	default:
		return fmt.Errorf("removing a handler: unknown registration %T", handle)
	}
}

// registration is what a dry scope returns: synced when the informer is.
type registration struct{ syncer }

type syncer interface {
	HasSynced() bool
	HasSyncedChecker() cache.DoneChecker
}

// GetStore is GetIndexer.
func (w *informer) GetStore() cache.Store { return w.GetIndexer() }

// GetIndexer returns the shared cache. It remains usable after the scope was closed or the
// informer stopped, with the last state.
func (w *informer) GetIndexer() cache.Indexer { return indexer{w.base.informer.GetIndexer(), w} }

// AddIndexers adds the indexes whose names the informer does not know yet.
func (w *informer) AddIndexers(indexers cache.Indexers) error {
	if err := w.base.addIndexers(indexers); err != nil {
		return w.scope.refuse(err)
	}
	return nil
}

// GetController returns a controller that cannot be run.
func (w *informer) GetController() cache.Controller { return w.base.informer.GetController() }

// Run is RunWithContext for callers that have a channel.
func (w *informer) Run(stopCh <-chan struct{}) { w.RunWithContext(wait.ContextForChannel(stopCh)) }

// RunWithContext starts the informer if it is not running and blocks until ctx ends or
// the scope is closed. The informer outlives both.
func (w *informer) RunWithContext(ctx context.Context) {
	w.scope.startOne(w.base)
	ctx, cancel := w.scope.untilClosed(ctx)
	defer cancel()
	<-ctx.Done()
}

func (w *informer) HasSynced() bool { return w.base.informer.HasSynced() }

func (w *informer) HasSyncedChecker() cache.DoneChecker { return w.base.informer.HasSyncedChecker() }

func (w *informer) LastSyncResourceVersion() string { return w.base.informer.LastSyncResourceVersion() }

// IsStopped reports whether handlers can no longer be added.
func (w *informer) IsStopped() bool {
	return w.scope.open.Err() != nil || w.base.informer.IsStopped()
}

// SetWatchErrorHandler fails: the informer is shared.
func (w *informer) SetWatchErrorHandler(cache.WatchErrorHandler) error {
	return w.notSet("watch error handler")
}

// SetWatchErrorHandlerWithContext fails: the informer is shared.
func (w *informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return w.notSet("watch error handler")
}

// SetTransform fails: the informer is shared.
func (w *informer) SetTransform(cache.TransformFunc) error { return w.notSet("transform") }

// notSet returns the error of a setting that would be one of all scopes.
func (w *informer) notSet(what string) error {
	return fmt.Errorf("setting a %s: the informer for %s is shared", what, w.base.key)
}

// indexer is the shared cache, to which every scope can add indexes.
type indexer struct {
	cache.Indexer
	informer *informer
}

func (x indexer) AddIndexers(indexers cache.Indexers) error { return x.informer.AddIndexers(indexers) }
func (x indexer) GetIndexers() cache.Indexers               { return x.informer.base.indexers() }
