package informers

import (
	"time"

	"k8s.io/client-go/tools/cache"
)

// minResyncPeriod is what shorter periods are raised to, as in client-go.
const minResyncPeriod = time.Second

// SetResyncPeriod changes the period of the handlers that follow the scope, those that ask for
// none of their own; zero, the default, means no resync. It counts from a handler's last
// resync, so a shorter period can make one due immediately.
func (s *Scope) SetResyncPeriod(period time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.period = period
	s.rescheduleLocked()
}

// rescheduleLocked makes the resync goroutine compute the next resync again, and starts it if
// there is none and a handler has a period.
func (s *Scope) rescheduleLocked() {
	if s.resyncerOn {
		select {
		case s.resync <- struct{}{}:
		default: // a wake-up is pending already
		}
		return
	}
	if s.closed || !s.resyncsLocked() {
		return
	}
	s.resyncerOn = true
	s.resyncing.Go(s.resyncLoop)
}

func (s *Scope) resyncsLocked() bool {
	for h := range s.handlers {
		if s.periodLocked(h) > 0 {
			return true
		}
	}
	return false
}

// periodLocked returns the period of a handler, zero for none.
func (s *Scope) periodLocked(h *handler) time.Duration {
	period := s.period
	if h.period != nil {
		period = *h.period
	}
	if period <= 0 {
		return 0
	}
	return max(period, minResyncPeriod)
}

// resyncLoop resyncs the handlers of the scope, one after the other, until the scope is
// closed or no handler has a period.
func (s *Scope) resyncLoop() {
	for {
		due, next, more := s.nextResync()
		if !more {
			return
		}
		for _, h := range due {
			h.resync()
		}
		if len(due) > 0 {
			continue
		}
		timer := s.informers.clock.NewTimer(next)
		select {
		case <-s.open.Done():
		case <-s.resync:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// nextResync returns the handlers whose resync is due and, if there is none, how long the
// first one has left. more is false when the loop can end.
func (s *Scope) nextResync() (due []*handler, next time.Duration, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.informers.clock.Now()
	for h := range s.handlers {
		period := s.periodLocked(h)
		if period == 0 {
			continue
		}
		left := h.resynced.Add(period).Sub(now)
		if left <= 0 {
			h.resynced = now
			due = append(due, h)
			continue
		}
		if !more || left < next {
			next, more = left, true
		}
	}
	if s.closed || len(due) == 0 && !more {
		s.resyncerOn = false
		return nil, 0, false
	}
	return due, next, true
}

// resync shows the handler every object in the cache. A handler that is still receiving the
// initial list is skipped.
func (h *handler) resync() {
	if !h.HasSynced() {
		return
	}
	store := h.base.informer.GetStore()
	for _, key := range store.ListKeys() {
		if h.removed.Load() {
			return
		}
		h.call(func(next cache.ResourceEventHandler) {
			// Looked up while no notification can be delivered: an object whose delete
			// the handler has seen is not in the store any more.
			if obj, exists, err := store.GetByKey(key); err == nil && exists {
				next.OnUpdate(obj, obj)
			}
		})
	}
}
