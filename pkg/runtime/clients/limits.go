package clients

import (
	"context"
	"sync"

	"k8s.io/client-go/util/flowcontrol"

	"kcmd.dev/pkg/controller"
)

// Discovery makes many requests at once and rarely: its limit, if there are limits, is
// fixed as upstream's.
const (
	discoveryQPS   = 20
	discoveryBurst = 200
)

// limits are the limits that all buckets of all Sets follow.
type limits struct {
	mu      sync.Mutex
	current *limit
}

// limit is in force until changed is over.
type limit struct {
	qps     float32
	burst   int
	changed context.Context
	end     context.CancelFunc
}

func newLimit(qps float32, burst int) *limit {
	l := &limit{qps: qps, burst: burst}
	l.changed, l.end = context.WithCancel(context.Background())
	return l
}

func newLimits(qps float32, burst int) *limits { return &limits{current: newLimit(qps, burst)} }

func (l *limits) set(qps float32, burst int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current.qps == qps && l.current.burst == burst {
		return
	}
	l.current.end()
	l.current = newLimit(qps, burst)
}

func (l *limits) get() *limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// bucket is the token bucket of one client. It implements flowcontrol.RateLimiter.
type bucket struct {
	limits *limits
	scale  func(qps float32, burst int) (float32, int)

	mu      sync.Mutex
	of      *limit
	limiter flowcontrol.RateLimiter // nil without limit
}

var _ flowcontrol.RateLimiter = &bucket{}

// newBucket returns the bucket of a client whose limits are multiplied.
func (l *limits) newBucket(f controller.LimitFactors) *bucket {
	return &bucket{limits: l, scale: func(qps float32, burst int) (float32, int) {
		if f.QPS > 0 {
			qps *= f.QPS
		}
		if f.Burst > 0 {
			burst *= f.Burst
		}
		return qps, burst
	}}
}

// newDiscoveryBucket returns the bucket of a discovery client.
func (l *limits) newDiscoveryBucket() *bucket {
	return &bucket{limits: l, scale: func(float32, int) (float32, int) { return discoveryQPS, discoveryBurst }}
}

// now returns the limit in force and the bucket for it, nil if there is no limit.
func (b *bucket) now() (*limit, flowcontrol.RateLimiter) {
	current := b.limits.get()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == current {
		return current, b.limiter
	}
	b.of, b.limiter = current, nil
	if current.qps > 0 {
		qps, burst := b.scale(current.qps, current.burst)
		b.limiter = flowcontrol.NewTokenBucketRateLimiter(qps, max(burst, 1))
	}
	return current, b.limiter
}

// Wait implements flowcontrol.RateLimiter. A change of the limit starts the wait again.
func (b *bucket) Wait(ctx context.Context) error {
	for {
		current, limiter := b.now()
		if limiter == nil {
			return nil
		}
		waiting, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(current.changed, cancel)
		err := limiter.Wait(waiting)
		stop()
		cancel()
		if err == nil || ctx.Err() != nil || current.changed.Err() == nil {
			return err
		}
	}
}

// Accept implements flowcontrol.RateLimiter.
func (b *bucket) Accept() {
	_ = b.Wait(context.Background()) // fails only if its context ends
}

// TryAccept implements flowcontrol.RateLimiter.
func (b *bucket) TryAccept() bool {
	_, limiter := b.now()
	return limiter == nil || limiter.TryAccept()
}

// Stop implements flowcontrol.RateLimiter. A bucket holds nothing to stop.
func (b *bucket) Stop() {}

// QPS implements flowcontrol.RateLimiter. 0 means no limit.
func (b *bucket) QPS() float32 {
	_, limiter := b.now()
	if limiter == nil {
		return 0
	}
	return limiter.QPS()
}
