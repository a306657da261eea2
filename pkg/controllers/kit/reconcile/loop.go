package reconcile

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
)

// Func reconciles the object of a key. ctx carries a logger named after the controller and
// survives a stop: it ends only if the instance is fenced.
type Func[K comparable] func(ctx context.Context, key K) error

// Options configures a Loop.
type Options[K comparable] struct {
	// Queue is the name of the work queue in metrics and status.
	Queue string
	// Workers is the number of keys processed concurrently, at least 1.
	Workers int
	// Backoff is the delay before a failed key is retried. Default: that of client-go's controller
	// limiter, 5 ms doubling to 1000 s for a key, and 10 retries per second with a burst of 100
	// over all keys, for which a key waits no longer than 30 s. See Backoff.
	Backoff workqueue.TypedRateLimiter[K]
	// Ready waits until keys may be worked on, and returns false if ctx ended first.
	// Default: until the scope of the instance is ready, see controller.Scope.
	Ready func(ctx context.Context) bool
	// MaxRetries is the number of times a failing key is retried in a row before it is dropped until its next event, or
	// for RetryDroppedAfter if there is none. Waiting for a cache does not count, see AwaitCache. Default 0: no limit.
	MaxRetries int
	// Namespace returns the namespace that a key belongs to, empty if it belongs to none. While
	// the controller is paused there, the key is held back. Default: the namespace of a
	// types.NamespacedName or cache.ObjectName, and none for keys of other types.
	Namespace func(key K) string
	// Regardless processes the keys of paused namespaces too. It is for a Func that writes
	// nothing there and keeps in memory what other decisions need.
	Regardless bool
}

// Loop is a queue and its workers.
type Loop[K comparable] struct {
	options Options[K]
	name    string
	fenced  <-chan struct{}
	clock   clock.WithTicker
	work    Func[K]

	lanes   *lanes[K]
	queue   *workqueue.Typed[K]
	metrics *queueMetrics
	record  *record[K]
	done    atomic.Uint64 // how many keys the workers are done with, see Counts

	rechecks workqueue.TypedRateLimiter[K] // the delays of keys that wait for a cache

	pauses *controller.Pauses
	paused heldKeys[K]

	deletions *controller.Deletions
	stopped   heldKeys[K]

	// enqueuing makes announcing a lane and adding the key one step. Otherwise, a concurrent Enqueue of the key could
	// consume the lane.
	enqueuing sync.Mutex

	mu      sync.Mutex
	delayed workqueue.TypedDelayingInterface[K] // nil before Run
	parked  map[K]time.Time                     // when keys are due that were added with a delay before Run
}

// New returns a loop. It accepts keys at once and processes them when Run is called.
func New[K comparable](env controller.Env, o Options[K], work Func[K]) *Loop[K] {
	if o.Backoff == nil {
		o.Backoff = DefaultBackoff[K]()
	}
	if o.Ready == nil {
		o.Ready = env.Informers.WaitUntilReady
	}
	if o.Namespace == nil {
		o.Namespace = namespaceOf[K]()
	}
	if o.Regardless {
		o.Namespace = nil
	}
	l := &Loop[K]{
		options:   o,
		name:      env.Name,
		fenced:    env.Fenced,
		clock:     env.Clock,
		work:      work,
		parked:    map[K]time.Time{},
		record:    newRecord[K](env.Clock),
		rechecks:  newRechecks[K](),
		pauses:    env.Pauses,
		deletions: env.Deletions,
	}
	l.metrics = newQueueMetrics(o.Queue, l)
	// Not method values, which would bind the metrics as they are before registration.
	l.lanes = newLanes[K](env.Clock,
		func() { l.metrics.adds.Inc() },
		func(waited time.Duration) { l.metrics.queueDuration.Observe(waited.Seconds()) })
	l.queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Clock: env.Clock, Queue: l.lanes})
	l.metrics.register(env.Metrics)
	env.Inspect(l)
	return l
}

// Add enqueues a key in the fresh lane.
func (l *Loop[K]) Add(key K) { l.Enqueue(Fresh, key) }

// Enqueue enqueues a key in a lane. If the lane says that the object of the key was added or deleted, the backoff of
// the key is reset: earlier failures concerned a different object.
func (l *Loop[K]) Enqueue(lane Lane, key K) {
	l.forgetOthers(lane, key)
	l.enqueuing.Lock()
	defer l.enqueuing.Unlock()
	l.add(key, lane)
}

// add is called with enqueuing locked.
func (l *Loop[K]) add(key K, lane Lane) {
	l.lanes.announce(key, lane)
	l.queue.Add(key)
}

// arrivals is the queue of a Loop as the delaying queue adds to it.
type arrivals[K comparable] struct {
	workqueue.TypedInterface[K]
	loop *Loop[K]
}

// Add adds a key whose time has come.
func (a arrivals[K]) Add(key K) {
	a.loop.enqueuing.Lock()
	defer a.loop.enqueuing.Unlock()
	a.loop.add(key, a.loop.lanes.arrived(key))
}

// AddAfter enqueues a key in the fresh lane once the delay has passed. A key that is already waiting keeps the
// earlier time.
func (l *Loop[K]) AddAfter(key K, delay time.Duration) { l.EnqueueAfter(freshly(Timer), key, delay) }

// EnqueueAfter is Enqueue once the delay has passed. A key that is already waiting keeps the earlier time and the fresh
// lane.
func (l *Loop[K]) EnqueueAfter(lane Lane, key K, delay time.Duration) {
	if delay <= 0 {
		l.Enqueue(lane, key)
		return
	}
	l.forgetOthers(lane, key)
	due := l.clock.Now().Add(delay)
	l.lanes.delay(key, due, lane)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.delayed == nil {
		if at, ok := l.parked[key]; !ok || due.Before(at) {
			l.parked[key] = due
		}
		return
	}
	l.delayed.AddAfter(key, delay)
}

// AddRateLimited enqueues a key after the backoff of a failure.
func (l *Loop[K]) AddRateLimited(key K) {
	l.retryAfter(key, l.options.Backoff.When(key))
}

func (l *Loop[K]) retryAfter(key K, delay time.Duration) {
	l.metrics.retries.Inc()
	l.EnqueueAfter(freshly(Retry), key, delay)
}

// Retries returns the number of times in a row that a key failed or had to wait.
func (l *Loop[K]) Retries(key K) int {
	return l.options.Backoff.NumRequeues(key) + l.rechecks.NumRequeues(key)
}

// forgetOthers resets the backoff of a key if it is queued for another object than before.
func (l *Loop[K]) forgetOthers(lane Lane, key K) {
	if lane.trigger.concernsNewObject(key) {
		l.forget(key)
	}
}

// forget makes the next delay of a key the first one.
func (l *Loop[K]) forget(key K) {
	l.options.Backoff.Forget(key)
	l.rechecks.Forget(key)
}

// Run waits until the controller may act on its caches, see controller.Scope, then processes
// keys until ctx ends and the reconciles in progress have finished.
func (l *Loop[K]) Run(ctx context.Context) error {
	defer l.queue.ShutDown()
	if !l.options.Ready(ctx) {
		return nil
	}
	l.record.loopStarted()
	delayed := workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[K]{Clock: l.clock, Queue: arrivals[K]{l.queue, l}})
	l.release(delayed)
	working, finish := WorkContext(ctx, l.fenced)
	defer finish()
	defer l.pauses.Follow(l.resumePaused)()
	defer l.deletions.Follow(l.resumeStopped)()
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

// release passes the delayed adds made before Run to the delaying queue.
func (l *Loop[K]) release(delayed workqueue.TypedDelayingInterface[K]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, due := range l.parked {
		delayed.AddAfter(key, due.Sub(l.clock.Now()))
	}
	l.delayed, l.parked = delayed, nil
}

func (l *Loop[K]) worker(ctx, working context.Context) {
	for {
		key, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		// After a stop the queue still returns the keys it holds; they are dropped.
		if ctx.Err() == nil && !l.holdIfPaused(key) {
			l.process(working, key)
		}
		l.queue.Done(key)
		l.done.Add(1)
	}
}

func (l *Loop[K]) process(ctx context.Context, key K) {
	why := l.lanes.takeTrigger(key)
	began := l.record.start(key, why)
	err := l.guarded(&reconcileContext[K]{Context: ctx, loop: l, key: key, trigger: why}, key)
	l.metrics.workDuration.Observe(l.clock.Since(began).Seconds())
	dropped := l.conclude(ctx, key, err)
	l.record.end(key, err, dropped) // last, so that a key is always shown as either in flight or waiting
}

// conclude decides whether and when a key is retried, and reports whether it is dropped.
func (l *Loop[K]) conclude(ctx context.Context, key K, err error) (dropped bool) {
	logger := klog.FromContext(ctx)
	if err == nil {
		l.forget(key)
		return false
	}
	if ctx.Err() != nil {
		logger.V(2).Info("Reconcile interrupted", "key", key, "err", context.Cause(ctx))
		return false
	}
	if paused := controller.PausedIn(err); len(paused) > 0 {
		logger.V(2).Info("Reconcile is held back by a pause", "key", key, "namespaces", paused, "err", err)
		l.holdUntilResumed(paused, key)
		l.AddRateLimited(key) // there may be other causes too
		return false
	}
	if stopped, only := controller.StoppedIn(err); len(stopped) > 0 && l.holdIfStopped(stopped, key) && only {
		logger.V(2).Info("Reconcile is held back by the breaker for deletions",
			"key", key, "resources", stopped, "err", err)
		return false
	}
	if isAwait(err) {
		logRetry(logger, key, err)
		l.record.failed(key, err)
		l.retryAfter(key, l.rechecks.When(key))
		return false
	}
	if l.options.MaxRetries > 0 && l.options.Backoff.NumRequeues(key) >= l.options.MaxRetries {
		logger.Error(err, "Dropping key after repeated failures",
			"key", key, "retries", l.options.MaxRetries, "retryAfter", RetryDroppedAfter)
		l.record.failed(key, err)
		l.forget(key)
		l.EnqueueAfter(freshly(Retry), key, RetryDroppedAfter)
		return true
	}
	l.record.failed(key, err)
	logRetry(logger, key, err)
	l.AddRateLimited(key)
	return false
}

// logRetry logs why a key is retried. A failure is logged as an error even if the key is also
// waiting for a cache.
func logRetry(logger klog.Logger, key any, err error) {
	if IsExpected(err) {
		logger.V(4).Info("Reconcile will be retried", "key", key, "err", err)
		return
	}
	logger.Error(err, "Reconcile failed", "key", key)
}

// guarded calls the reconcile function and turns a panic into an error.
func (l *Loop[K]) guarded(ctx context.Context, key K) (err error) {
	if panicked := concurrent.Catch(func() { err = l.work(ctx, key) }); panicked != nil {
		return panicked
	}
	return err
}
