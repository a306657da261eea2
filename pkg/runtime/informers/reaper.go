package informers

import (
	"context"
	"time"
)

// SetGracePeriod changes how long informers outlive their last user, including those that are
// already idle.
func (i *Informers) SetGracePeriod(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.grace = d
	i.wakeReaper()
}

// reapLoop stops informers whose grace period is over.
func (i *Informers) reapLoop(ctx context.Context) {
	for {
		next, waiting := i.reap()
		if !waiting {
			select {
			case <-ctx.Done():
				return
			case <-i.released:
			}
			continue
		}
		timer := i.clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-i.released:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// reap stops and forgets informers that have been idle for the grace period. It returns
// how long the next idle one has left, if there is one.
func (i *Informers) reap() (next time.Duration, waiting bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.clock.Now()
	for k, b := range i.bases {
		if len(b.refs) > 0 {
			continue
		}
		left := b.idleSince.Add(i.grace).Sub(now)
		if left <= 0 {
			delete(i.bases, k)
			b.halt()
			continue
		}
		if !waiting || left < next {
			next, waiting = left, true
		}
	}
	return next, waiting
}

func (i *Informers) wakeReaper() {
	select {
	case i.released <- struct{}{}:
	default: // a wake-up is pending already
	}
}
