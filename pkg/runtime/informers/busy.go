package informers

import (
	"slices"
	"time"

	"kcmd.dev/pkg/controller"
)

// Busy lists the handlers of the scope that have been processing one notification for at
// least a time, the longest first. Handlers should return immediately, because they delay
// every later notification.
func (s *Scope) Busy(atLeast time.Duration) []controller.InFlight {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.informers.clock.Now()
	var busy []controller.InFlight
	for h := range s.handlers {
		began := h.since.Load()
		if began == 0 {
			continue
		}
		if since := s.informers.made.Add(time.Duration(began)); now.Sub(since) >= atLeast {
			busy = append(busy, controller.InFlight{Key: h.base.key.String(), Since: since})
		}
	}
	slices.SortFunc(busy, func(a, b controller.InFlight) int { return a.Since.Compare(b.Since) })
	return busy
}
