package storageversionmigrator

import (
	"context"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// pace limits how many objects are rewritten per second, by all migrations together.
type pace struct {
	limiter *rate.Limiter
	clock   clock.WithTicker
	stopped <-chan struct{}
}

// newPace makes a pace of so many objects per second, without a limit if that is 0. What was not
// used within a second is lost.
func newPace(perSecond float32, c clock.WithTicker, stopped <-chan struct{}) *pace {
	limit := rate.Limit(perSecond)
	if perSecond == 0 {
		limit = rate.Inf
	}
	return &pace{limiter: rate.NewLimiter(limit, int(math.Ceil(float64(max(perSecond, 1))))), clock: c, stopped: stopped}
}

// wait waits until the next object may be rewritten. It returns false if the controller is to stop.
func (p *pace) wait(ctx context.Context) bool {
	select {
	case <-p.stopped:
		return false
	case <-ctx.Done():
		return false
	default:
	}
	now := p.clock.Now()
	delay := p.limiter.ReserveN(now, 1).DelayFrom(now)
	if delay == 0 {
		return true
	}
	timer := p.clock.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-p.stopped:
	case <-ctx.Done():
	}
	return false
}

// hints is the backoff of migrations. It delays a failed one at least as long as the API server has
// asked for.
type hints struct {
	workqueue.TypedRateLimiter[string]

	mu     sync.Mutex
	delays map[string]time.Duration
}

func newHints() *hints {
	return &hints{TypedRateLimiter: reconcile.DefaultBackoff[string](), delays: map[string]time.Duration{}}
}

// expect sets the least delay of the next failure of a migration.
func (h *hints) expect(migration string, delay time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delays[migration] = delay
}

func (h *hints) forget(migration string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.delays, migration)
}

// When implements workqueue.TypedRateLimiter.
func (h *hints) When(migration string) time.Duration {
	delay := h.TypedRateLimiter.When(migration)
	h.mu.Lock()
	defer h.mu.Unlock()
	delay = max(delay, h.delays[migration])
	delete(h.delays, migration)
	return delay
}
