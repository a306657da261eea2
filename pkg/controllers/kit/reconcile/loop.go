package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/concurrent"
	"kcmd.dev/pkg/controllers/kit/controller"
)

// Func brings the object behind a key to its desired state. ctx carries a logger
// named for the controller and outlives a stop: it ends only if the instance is fenced.
type Func[K comparable] func(ctx context.Context, key K) error

// Options describe a loop.
type Options[K comparable] struct {
	// Queue is the name of the work queue in metrics and status.
	Queue string
	// Workers is the number of keys worked on at once, at least 1.
	Workers int
	// Backoff is the delay before a failed key is tried again. Default: client-go's
	// controller limiter, 5 ms doubling to 1000 s for a key, and 10 retries per
	// second with a burst of 100 over all keys.
	Backoff workqueue.TypedRateLimiter[K]
	// MaxRetries is the number of times a failing key is retried in a row before it
	// is dropped until its next event. Default 0: without end.
	MaxRetries int
}

// Loop is a queue and its workers.
type Loop[K comparable] struct {
	options Options[K]
	name    string
	ready   func(context.Context) bool
	fenced  <-chan struct{}
	clock   clock.WithTicker
	work    Func[K]

	lanes   *lanes[K]
	queue   *workqueue.Typed[K]
	metrics *queueMetrics
	record  *record[K]

	mu      sync.Mutex
	delayed workqueue.TypedDelayingInterface[K] // nil before Run
	parked  []parked[K]                         // delayed adds made before Run
}

type parked[K comparable] struct {
	key K
	due time.Time
}

// New makes the loop of a controller. It can take keys at once and works when Run is called.
func New[K comparable](env controller.Env, o Options[K], work Func[K]) *Loop[K] {
	if o.Backoff == nil {
		o.Backoff = workqueue.DefaultTypedControllerRateLimiter[K]()
	}
	l := &Loop[K]{
		options: o,
		name:    env.Name,
		ready:   env.Informers.WaitUntilReady,
		fenced:  env.Fenced,
		clock:   env.Clock,
		work:    work,
		record:  newRecord[K](env.Clock),
	}
	l.metrics = newQueueMetrics(o.Queue, l)
	// Not method values: those would be bound to what the metrics are before they are registered.
	l.lanes = newLanes[K](env.Clock,
		func() { l.metrics.adds.Inc() },
		func(waited time.Duration) { l.metrics.queueDuration.Observe(waited.Seconds()) })
	l.queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Clock: env.Clock, Queue: l.lanes})
	if env.Metrics != nil {
		l.metrics.register(env.Metrics)
	}
	if env.Inspect != nil {
		env.Inspect(l)
	}
	return l
}

// Add queues a key in the fresh lane.
func (l *Loop[K]) Add(key K) { l.Enqueue(Fresh, key) }

// Enqueue queues a key in a lane.
func (l *Loop[K]) Enqueue(lane Lane, key K) {
	l.lanes.announce(key, lane)
	l.queue.Add(key)
}

// AddAfter queues a key once the delay has passed. A key that waits already keeps the
// earlier time.
func (l *Loop[K]) AddAfter(key K, delay time.Duration) {
	if delay <= 0 {
		l.Add(key)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.delayed == nil {
		l.parked = append(l.parked, parked[K]{key: key, due: l.clock.Now().Add(delay)})
		return
	}
	l.delayed.AddAfter(key, delay)
}

// AddRateLimited queues a key after the backoff that a failure would give it.
func (l *Loop[K]) AddRateLimited(key K) {
	l.metrics.retries.Inc()
	l.AddAfter(key, l.options.Backoff.When(key))
}

// Retries is the number of failures in a row of a key.
func (l *Loop[K]) Retries(key K) int { return l.options.Backoff.NumRequeues(key) }

// Run waits until the controller may act on its caches, see controller.Scope, then
// works until ctx ends and the reconciles in progress are finished.
func (l *Loop[K]) Run(ctx context.Context) error {
	defer l.queue.ShutDown()
	if !l.ready(ctx) {
		return nil
	}
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Clock: l.clock, Queue: l.queue})
	l.release(delayed)
	working, finish := WorkContext(ctx, l.fenced)
	defer finish()
	parts := []func(context.Context) error{func(ctx context.Context) error {
		<-ctx.Done()
		delayed.ShutDown() // ends the workers
		return nil
	}}
	for range max(l.options.Workers, 1) {
		parts = append(parts, func(ctx context.Context) error {
			l.worker(ctx, working)
			return nil
		})
	}
	return concurrent.Run(ctx, parts...)
}

// release hands the adds that were delayed before Run to the queue that can delay.
func (l *Loop[K]) release(delayed workqueue.TypedDelayingInterface[K]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parked {
		delayed.AddAfter(p.key, p.due.Sub(l.clock.Now()))
	}
	l.delayed, l.parked = delayed, nil
}

// WorkContext derives the context of work that survives a request to stop, which is the
// end of ctx, and ends with the right to write, when fenced is closed. The function frees
// its resources; the work has to have ended by then.
func WorkContext(ctx context.Context, fenced <-chan struct{}) (context.Context, func()) {
	working, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})
	watched := concurrent.Start(func() {
		select {
		case <-fenced:
			cancel(errFenced)
		case <-done:
		}
	})
	return working, func() {
		close(done)
		watched()
		cancel(nil)
	}
}

var errFenced = errors.New("the instance may no longer write")

func (l *Loop[K]) worker(ctx, working context.Context) {
	for {
		key, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		// After a stop the queue still hands out what it holds; none of it is worked on.
		if ctx.Err() == nil {
			l.process(working, key)
		}
		l.queue.Done(key)
	}
}

func (l *Loop[K]) process(ctx context.Context, key K) {
	began := l.record.begin(key)
	err := l.guarded(ctx, key)
	l.metrics.workDuration.Observe(l.clock.Since(began).Seconds())
	l.conclude(ctx, key, err)
	l.record.end(key, err) // last, so that a key is never shown as neither worked on nor waiting
}

// conclude decides when a key is tried again.
func (l *Loop[K]) conclude(ctx context.Context, key K, err error) {
	logger := klog.FromContext(ctx)
	if err == nil {
		l.options.Backoff.Forget(key)
		return
	}
	if ctx.Err() != nil {
		logger.V(2).Info("Reconcile interrupted", "key", key, "cause", context.Cause(ctx))
		return
	}
	if l.options.MaxRetries > 0 && l.Retries(key) >= l.options.MaxRetries {
		logger.Error(err, "Dropping key after repeated failures", "key", key, "retries", l.options.MaxRetries)
		l.options.Backoff.Forget(key)
		return
	}
	if IsRequeue(err) {
		logger.V(4).Info("Reconcile again later", "key", key, "cause", err)
	} else {
		logger.Error(err, "Reconcile failed", "key", key)
	}
	l.AddRateLimited(key)
}

// guarded turns a panic of a reconcile into an error.
func (l *Loop[K]) guarded(ctx context.Context, key K) (err error) {
	if panicked := concurrent.Catch(func() { err = l.work(ctx, key) }); panicked != nil {
		return panicked
	}
	return err
}

// requeue marks an expected reason to try again.
type requeue struct{ error }

func (r requeue) Unwrap() error { return r.error }

// Requeue wraps a reason to try a key again later that is no failure: it is logged at
// verbosity 4 and not counted as failed.
func Requeue(reason error) error { return requeue{reason} }

// IsRequeue reports that an error came from Requeue.
func IsRequeue(err error) bool {
	var r requeue
	return errors.As(err, &r)
}
