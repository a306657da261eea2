package cloudnode

import (
	"context"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller/concurrent"
)

// never is the pause between two rounds of the library, of which the first is empty.
const never = time.Duration(math.MaxInt64)

// rounds are those in which the addresses of all nodes are compared with the cloud's.
type rounds struct {
	// last is when the last round began; the zero time if none did, or if the stop cut it short.
	last time.Time
	// passed is closed when the library has begun its own round.
	passed chan struct{}
	once   sync.Once
}

// list is what a round of the library gets of the nodes. The first is the one that the library
// begins when it starts: it gets none. The others are ours.
func (r *rounds) list(all []*corev1.Node) []*corev1.Node {
	first := false
	r.once.Do(func() {
		first = true
		close(r.passed)
	})
	if first {
		return nil
	}
	return all
}

// run begins a round when one is due, and the next a period after its end.
func (r *rounds) run(ctx context.Context, clk clock.Clock, period time.Duration, round func(context.Context) error) {
	select {
	case <-r.passed:
	case <-ctx.Done():
		return
	}
	wait := r.due(clk.Now(), period)
	for r.pause(ctx, clk, wait) {
		r.last = clk.Now()
		// The library may end the goroutine of a round after the stop.
		concurrent.Start(func() {
			if err := round(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "Failed to update the addresses of nodes")
			}
		})()
		if ctx.Err() != nil { // some nodes may have been left out
			r.last = time.Time{}
		}
		wait = period
	}
}

// due is how long the first round has to wait: not at all, unless another instance has made one
// within the period.
func (r *rounds) due(now time.Time, period time.Duration) time.Duration {
	if r.last.IsZero() || r.last.After(now) {
		return 0
	}
	return max(0, period-now.Sub(r.last))
}

// pause waits, and returns false if ctx ended first.
func (*rounds) pause(ctx context.Context, clk clock.Clock, wait time.Duration) bool {
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := clk.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
