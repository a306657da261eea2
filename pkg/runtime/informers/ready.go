package informers

import (
	"context"
	"slices"

	"kcmd.dev/pkg/runtime/takeover"
)

// Barrier reports whether caches that are complete contain what they have to, see package
// takeover.
type Barrier interface {
	// Passed returns a channel that is closed once the cache does, never if the informer stops
	// first. It does not block.
	Passed(takeover.Cache) <-chan struct{}
	// Lacking describes what a cache lacks, empty if it has passed or Passed was not called
	// for it.
	Lacking(takeover.Cache) string
}

// obstacle is something that a scope waits for.
type obstacle struct {
	over <-chan struct{}
	gone <-chan struct{} // no longer waited for; may be nil
	what func() string
}

// AddBarrier adds one to ScopeOptions.Barrier. It must be called before anybody waits.
func (s *Scope) AddBarrier(b Barrier) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.barriers = append(s.barriers, b)
}

// Ready reports whether every informer requested through the scope has a complete cache, that
// each has passed the barriers, and that every handler has been shown all of its cache. It is
// false for a scope that is closed or has panicked.
func (s *Scope) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && !s.failed.Load() && len(s.obstaclesLocked()) == 0
}

// WaitUntilReady waits for Ready, informers and handlers that are added meanwhile included.
// It returns false if ctx ended, the scope was closed, an informer was stopped, or a handler
// panicked first.
func (s *Scope) WaitUntilReady(ctx context.Context) bool {
	s.waiters.Add(1)
	defer s.waiters.Add(-1)
	for {
		s.mu.Lock()
		obstacles, hopeless, released := s.obstaclesLocked(), s.anyHaltedLocked(), s.released
		s.mu.Unlock()
		if len(obstacles) == 0 {
			return s.Ready()
		}
		if hopeless {
			return false
		}
		select { // the next obstacle may be another one then
		case <-obstacles[0].over:
		case <-obstacles[0].gone:
		case <-released:
		case <-s.failure:
			return false
		case <-s.open.Done():
			return false
		case <-ctx.Done():
			return s.Ready()
		}
	}
}

// anyHaltedLocked reports whether an informer was stopped although the scope holds it.
func (s *Scope) anyHaltedLocked() bool {
	for _, w := range s.held {
		select {
		case <-w.base.halted:
			return true
		default:
		}
	}
	return false
}

// Waiting describes what WaitUntilReady waits for, sorted; nil if nobody waits.
func (s *Scope) Waiting() []string {
	if s.waiters.Load() == 0 {
		return nil // it would begin comparisons without need
	}
	s.mu.Lock()
	obstacles := s.obstaclesLocked()
	s.mu.Unlock()
	var waiting []string
	for _, o := range obstacles {
		waiting = append(waiting, o.what())
	}
	slices.Sort(waiting)
	return slices.Compact(waiting)
}

// obstaclesLocked lists what the scope currently waits for. Others can appear when these are
// over: a cache is only compared when it is complete.
func (s *Scope) obstaclesLocked() []obstacle {
	var found []obstacle
	for _, w := range s.held {
		if o, waits := s.obstacleOf(w.base); waits {
			found = append(found, o)
		}
	}
	for h := range s.handlers {
		if !h.removed.Load() && !h.HasSynced() {
			found = append(found, obstacle{
				over: h.HasSyncedChecker().Done(),
				gone: h.gone,
				what: func() string { return "handlers have not received all of " + h.base.key.String() },
			})
		}
	}
	return found
}

func (s *Scope) obstacleOf(b *base) (o obstacle, waits bool) {
	if !b.informer.HasSynced() {
		return obstacle{
			over: b.informer.HasSyncedChecker().Done(),
			gone: b.halted,
			what: func() string { return "the cache of " + b.key.String() + " is not complete" },
		}, true
	}
	for _, barrier := range s.barriers {
		cache := s.informers.cacheOf(b)
		passed := barrier.Passed(cache)
		select {
		case <-passed:
			continue
		default:
		}
		return obstacle{
			over: passed,
			gone: b.halted,
			what: func() string { return "the cache of " + b.key.String() + " is behind: " + barrier.Lacking(cache) },
		}, true
	}
	return obstacle{}, false
}

// cacheOf returns an informer as a Barrier sees it.
func (i *Informers) cacheOf(b *base) takeover.Cache {
	i.mu.Lock()
	defer i.mu.Unlock()
	return b.cacheLocked()
}

func (b *base) cacheLocked() takeover.Cache {
	return takeover.Cache{
		Resource: b.key.resource,
		Filter:   b.key.filter,
		Store:    b.informer.GetIndexer(),
		Halted:   b.halted,
		Started:  b.started,
	}
}

// CachesOf returns the complete caches that scopes with these names hold, as a Barrier sees them.
func (i *Informers) CachesOf(names []string) []takeover.Cache {
	i.mu.Lock()
	defer i.mu.Unlock()
	var caches []takeover.Cache
	for _, b := range i.bases {
		if b.heldByLocked(names) && b.informer.HasSynced() {
			caches = append(caches, b.cacheLocked())
		}
	}
	return caches
}

func (b *base) heldByLocked(names []string) bool {
	for s := range b.refs {
		if slices.Contains(names, s.name) {
			return true
		}
	}
	return false
}
