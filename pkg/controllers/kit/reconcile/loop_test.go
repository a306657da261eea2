package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

const deadline = time.Minute

// running is a loop that runs under a test.
type running struct {
	stop context.CancelFunc
	done chan error
}

func start(env *controllertest.Env, l *reconcile.Loop[string]) running { return run(env, l.Run) }

func run(env *controllertest.Env, loop func(context.Context) error) running {
	ctx, stop := context.WithCancel(env.Context())
	r := running{stop: stop, done: make(chan error, 1)}
	go func() { r.done <- loop(ctx) }()
	return r
}

func (r running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := receive(t, r.done, "the loop did not end"); err != nil {
		t.Error(err)
	}
}

func receive[T any](t *testing.T, from <-chan T, otherwise string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(deadline):
		t.Fatal(otherwise)
		panic("unreachable")
	}
}

// Pins WL-101.
func TestFreshKeysOvertakeTheBacklog(t *testing.T) {
	env := controllertest.New(t)
	seen := make(chan string, 100)
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(_ context.Context, key string) error {
		seen <- key
		return nil
	})
	for i := range 20 {
		l.Enqueue(reconcile.Backlog, fmt.Sprint("old", i))
	}
	l.Add("new")
	l.Add("old19") // something happened to a key of the backlog
	l.Enqueue(reconcile.Backlog, "new")
	r := start(env, l)
	defer r.end(t)

	var order []string
	for range 21 {
		order = append(order, receive(t, seen, "not all keys were worked on"))
	}
	if got := strings.Join(order[:3], " "); got != "new old19 old0" {
		t.Errorf("the first keys were %s", got)
	}
	if s := l.Inspect(); s.Depth != 0 || s.Backlog != 0 {
		t.Errorf("keys are left: %+v", s)
	}
}

// What was replayed waits behind what changed also if both are delayed; what changed wins, whichever came first. Pins
// WL-101.
func TestDelayedKeysKeepTheirLane(t *testing.T) {
	for name, beforeRun := range map[string]bool{"delayed before the loop runs": true, "delayed while it runs": false} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t)
			seen, hold := make(chan string, 100), make(chan struct{})
			l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(_ context.Context, key string) error {
				if key == "first" {
					<-hold
				}
				seen <- key
				return nil
			})
			delayAll := func() {
				l.EnqueueAfter(reconcile.Backlog, "first", time.Second)
				for i := range 5 {
					l.EnqueueAfter(reconcile.Backlog, fmt.Sprint("old", i), time.Minute)
				}
				l.AddAfter("old3", time.Hour)                         // something happened to a key that was replayed
				l.AddAfter("old4", 30*time.Second)                    // the same, and sooner
				l.AddAfter("new", 2*time.Minute)                      // was delayed last
				l.EnqueueAfter(reconcile.Backlog, "new", time.Minute) // and was replayed as well
			}
			if beforeRun {
				delayAll()
			}
			r := start(env, l)
			defer r.end(t)
			if !beforeRun {
				controllertest.Eventually(t, "the loop runs", func() bool { return !l.Inspect().Began.IsZero() })
				delayAll()
			}
			controllertest.Eventually(t, "a key waits", env.Clock.HasWaiters)
			env.Clock.Step(time.Second)
			// A timer that is set just now may have been computed before the clock was, and be late by a second.
			env.EventuallyAsTimePasses(t, "the worker is busy", 100*time.Millisecond, func() bool {
				return len(l.Inspect().InFlight) == 1
			})
			env.Clock.Step(time.Minute)
			controllertest.Eventually(t, "all keys have been added", func() bool { return l.Inspect().Depth == 6 })
			if got := l.Inspect().Backlog; got != 3 {
				t.Errorf("%d keys are in the backlog, want old0 to old2", got)
			}
			close(hold)
			fresh := map[string]bool{}
			if got := receive(t, seen, "not worked on"); got != "first" {
				t.Fatalf("got %s", got)
			}
			for range 3 {
				fresh[receive(t, seen, "not all keys were worked on")] = true
			}
			if want := map[string]bool{"old3": true, "old4": true, "new": true}; !maps.Equal(fresh, want) {
				t.Errorf("the first keys were %v, want %v", fresh, want)
			}
		})
	}
}

// Pins WL-101.
func TestTheBacklogIsNotStarved(t *testing.T) {
	env := controllertest.New(t)
	seen := make(chan string, 100)
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(_ context.Context, key string) error {
		seen <- key
		return nil
	})
	l.Enqueue(reconcile.Backlog, "old")
	for i := range 50 {
		l.Add(fmt.Sprint("new", i))
	}
	r := start(env, l)
	defer r.end(t)
	for n := 1; ; n++ {
		if receive(t, seen, "the key of the backlog was not worked on") == "old" {
			if n > 8 {
				t.Errorf("the backlog had its turn after %d keys", n)
			}
			return
		}
	}
}

// Pins WL-4 and WL-50.
func TestAKeyIsNeverWorkedOnTwiceAtOnce(t *testing.T) {
	env := controllertest.New(t)
	entered, release := make(chan struct{}, 10), make(chan struct{})
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 4}, func(context.Context, string) error {
		entered <- struct{}{}
		<-release
		return nil
	})
	r := start(env, l)
	l.Add("a")
	receive(t, entered, "not worked on")
	l.Add("a")
	l.Add("a")
	if len(entered) != 0 {
		t.Error("a second worker took the same key")
	}
	close(release)
	receive(t, entered, "the key was not worked on again")
	r.end(t)
	if len(entered) != 0 {
		t.Error("two adds while the key was worked on made two more reconciles")
	}
}

// Pins WL-4 and WL-5.
func TestFailuresBackOffAndSuccessForgets(t *testing.T) {
	env := controllertest.New(t)
	attempts := make(chan int, 10)
	n := 0
	l := reconcile.New(env.Env, reconcile.Options[string]{
		Queue: "q", Workers: 1,
		Backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
	}, func(context.Context, string) error {
		n++
		attempts <- n
		switch n {
		case 1:
			return errors.New("broken")
		case 2:
			panic("worse")
		}
		return nil
	})
	r := start(env, l)
	defer r.end(t)
	l.Add("a")
	receive(t, attempts, "not worked on")
	step := func(d time.Duration) {
		t.Helper()
		env.EventuallyAsTimePasses(t, "it is tried again", d, func() bool { return len(attempts) > 0 })
		<-attempts
	}
	step(time.Second)
	step(2 * time.Second)
	controllertest.Eventually(t, "the third try is over", func() bool { return l.Inspect().Reconciled == 3 })
	s := l.Inspect()
	if s.Failed != 2 || s.Panicked != 1 || !strings.Contains(s.LastError, "worse") {
		t.Errorf("status is %+v", s)
	}
	controllertest.Eventually(t, "the success resets the backoff", func() bool { return l.Retries("a") == 0 })
}

// limiter tells a test when a failed key gets its delay.
type limiter struct {
	workqueue.TypedRateLimiter[string]
	when func()
}

func (l limiter) When(key string) time.Duration {
	l.when()
	return l.TypedRateLimiter.When(key)
}

// TestAFailedKeyIsShownUntilItWaits: whoever looks between a failure and the delay after it
// sees the key in flight.
func TestAFailedKeyIsShownUntilItWaits(t *testing.T) {
	env := controllertest.New(t)
	var l *reconcile.Loop[string]
	seen := make(chan int, 10)
	l = reconcile.New(env.Env, reconcile.Options[string]{
		Queue: "q", Workers: 1,
		Backoff: limiter{reconcile.Backoff[string](time.Second, time.Minute), func() { seen <- len(l.Inspect().InFlight) }},
	}, func(context.Context, string) error { return errors.New("broken") })
	r := start(env, l)
	defer r.end(t)
	l.Add("a")
	controllertest.Eventually(t, "it gets its delay", func() bool { return len(seen) > 0 })
	if n := <-seen; n != 1 {
		t.Errorf("%d keys were in flight", n)
	}
}

// A panic in what surrounds a reconcile ends the loop, and not only a worker: the supervisor
// gets to see it.
func TestAPanicOutsideAReconcileIsRaisedByRun(t *testing.T) {
	env := controllertest.New(t)
	l := reconcile.New(env.Env, reconcile.Options[string]{
		Queue: "q", Workers: 3,
		Backoff: limiter{reconcile.Backoff[string](time.Second, time.Minute), func() { panic("no delay") }},
	}, func(context.Context, string) error { return errors.New("broken") })
	raised := make(chan any, 1)
	go func() {
		defer func() { raised <- recover() }()
		_ = l.Run(env.Context())
	}()
	l.Add("a")
	panicked, ok := receive(t, raised, "the loop did not end").(*concurrent.PanicError)
	if !ok || panicked.Value != "no delay" {
		t.Errorf("raised %v", panicked)
	}
}

func TestAKeyIsDroppedAfterItsLastRetry(t *testing.T) {
	env := controllertest.New(t)
	var mu sync.Mutex
	n := 0
	l := reconcile.New(env.Env, reconcile.Options[string]{
		Queue: "q", Workers: 1, MaxRetries: 3,
		Backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](0, 0),
	}, func(context.Context, string) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		return errors.New("broken")
	})
	r := start(env, l)
	l.Add("a")
	controllertest.Eventually(t, "the last try is over", func() bool { return l.Inspect().Reconciled == 4 })
	controllertest.Eventually(t, "its failures are forgotten", func() bool { return l.Retries("a") == 0 })
	r.end(t)
	if n != 4 {
		t.Errorf("tried %d times, want once and 3 retries", n)
	}
}

// What made it fail may end without an event. Pins WL-120.
func TestAKeyThatWasDroppedIsRetriedInTheEnd(t *testing.T) {
	env := controllertest.New(t)
	var mu sync.Mutex
	failing, n := true, 0
	l := reconcile.New(env.Env, reconcile.Options[string]{
		Queue: "q", Workers: 1, MaxRetries: 3,
		Backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](0, 0),
	}, func(context.Context, string) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; failing {
			return errors.New("broken")
		}
		return nil
	})
	r := start(env, l)
	defer r.end(t)
	shown := func() []controller.LoopKey { return l.Keys(func(string) bool { return true }) }
	l.Add("a")
	controllertest.Eventually(t, "it is dropped", func() bool {
		keys := shown()
		return len(keys) == 1 && keys[0].State == controller.KeyDelayed &&
			keys[0].Until.Equal(env.Clock.Now().Add(reconcile.RetryDroppedAfter)) && keys[0].LastError == "broken"
	})
	mu.Lock()
	failing = false
	mu.Unlock()
	env.EventuallyAsTimePasses(t, "it is tried again", reconcile.RetryDroppedAfter, func() bool { return l.Inspect().Reconciled == 5 })
	controllertest.Eventually(t, "nothing is left", func() bool { return len(shown()) == 0 })
	if n != 5 {
		t.Errorf("tried %d times, want 5", n)
	}
}

// Conflicts are no failures, but they use up the retries. Pins MGR-198.
func TestAKeyThatIsDroppedHasFailed(t *testing.T) {
	env := controllertest.New(t)
	l := reconcile.New(env.Env, reconcile.Options[string]{
		Queue: "q", Workers: 1, MaxRetries: 3,
		Backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](0, 0),
	}, func(context.Context, string) error {
		return apierrors.NewConflict(corev1.Resource("endpoints"), "a", errors.New("changed"))
	})
	r := start(env, l)
	l.Add("a")
	controllertest.Eventually(t, "the last try is over", func() bool { return l.Inspect().Reconciled == 4 })
	r.end(t)
	if is := l.Inspect(); is.Failed != 1 || !strings.Contains(is.LastError, "changed") {
		t.Errorf("%d have failed, the last with %q; want that of the last try", is.Failed, is.LastError)
	}
}

// TestAKeyThatWaitsForACacheIsNotDropped: nor does waiting use up the retries that a failure has. Pins WL-113.
func TestAKeyThatWaitsForACacheIsNotDropped(t *testing.T) {
	env := controllertest.New(t)
	n := 0
	l := reconcile.New(env.Env, reconcile.Options[string]{
		Queue: "q", Workers: 1, MaxRetries: 3,
		Backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](0, 0),
	}, func(context.Context, string) error {
		switch n++; {
		case n <= 10:
			return reconcile.AwaitCache(errors.New("the cache is behind"))
		case n == 11:
			return errors.New("broken")
		}
		return nil
	})
	r := start(env, l)
	defer r.end(t)
	l.Add("a")
	env.EventuallyAsTimePasses(t, "it is done", reconcile.RecheckAfter, func() bool { return l.Inspect().Reconciled == 12 })
	controllertest.Eventually(t, "the success resets the delays", func() bool { return l.Retries("a") == 0 })
	if s := l.Inspect(); s.Failed != 1 || s.LastError != "a: broken" {
		t.Errorf("status is %+v", s)
	}
}

// Pins MGR-198.
func TestAFailureIsLoudAlthoughTheKeyWaitsForACache(t *testing.T) {
	behind := reconcile.AwaitCache(errors.New("the cache is behind"))
	for name, tc := range map[string]struct {
		err  error
		want string // at error level
	}{
		"waits":                       {behind, ""},
		"waits, after a conflict":     {errors.Join(behind, apierrors.NewConflict(corev1.Resource("endpoints"), "a", errors.New("changed"))), ""},
		"waits, and something failed": {errors.Join(behind, errors.New("broken")), "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t)
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(3)))
			l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(context.Context, string) error { return tc.err })
			r := run(env, func(ctx context.Context) error { return l.Run(klog.NewContext(ctx, logger)) })
			l.Add("a")
			controllertest.Eventually(t, "the key is worked on", func() bool { return l.Inspect().Reconciled == 1 })
			r.end(t)
			logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if loud := strings.Contains(logged, "Reconcile failed"); loud != (tc.want != "") || !strings.Contains(logged, tc.want) {
				t.Errorf("logged %q, want an error with %q", logged, tc.want)
			}
		})
	}
}

// Pins WL-102.
func TestRequeueIsNoFailure(t *testing.T) {
	env := controllertest.New(t)
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(context.Context, string) error {
		return reconcile.Requeue(errors.New("caches are behind"))
	})
	r := start(env, l)
	l.Add("a")
	controllertest.Eventually(t, "the key is worked on", func() bool { return l.Inspect().Reconciled == 1 })
	controllertest.Eventually(t, "it is tried again later", func() bool { return l.Retries("a") == 1 })
	r.end(t)
	if s := l.Inspect(); s.Failed != 0 || s.LastError != "" {
		t.Errorf("status is %+v", s)
	}
}

// Pins WL-86 and WL-101.
func TestAStopFinishesWhatIsInFlightAndDropsTheRest(t *testing.T) {
	env := controllertest.New(t)
	entered, release := make(chan string, 10), make(chan struct{})
	var working context.Context
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(ctx context.Context, key string) error {
		working = ctx
		entered <- key
		<-release
		return ctx.Err()
	})
	r := start(env, l)
	l.Add("a")
	receive(t, entered, "not worked on")
	l.Add("b")
	r.stop()
	if working.Err() != nil {
		t.Error("the stop interrupted the reconcile in flight")
	}
	close(release)
	if err := receive(t, r.done, "the loop did not end"); err != nil {
		t.Error(err)
	}
	if len(entered) != 0 {
		t.Error("a key was taken after the stop")
	}
	if s := l.Inspect(); s.Reconciled != 1 || s.Failed != 0 {
		t.Errorf("status is %+v", s)
	}
}

func TestAFenceInterruptsWhatIsInFlight(t *testing.T) {
	env := controllertest.New(t)
	fenced := make(chan struct{})
	env.Env.Fenced = fenced
	entered := make(chan struct{}, 1)
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(ctx context.Context, _ string) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	r := start(env, l)
	l.Add("a")
	receive(t, entered, "not worked on")
	r.stop()
	close(fenced)
	if err := receive(t, r.done, "the fence did not interrupt the reconcile"); err != nil {
		t.Error(err)
	}
	if s := l.Inspect(); s.Reconciled != 1 {
		t.Errorf("status is %+v", s)
	}
}

func TestDelayedKeysCanBeAddedBeforeRun(t *testing.T) {
	env := controllertest.New(t)
	seen := make(chan string, 10)
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(_ context.Context, key string) error {
		seen <- key
		return nil
	})
	l.AddAfter("later", time.Minute)
	l.AddAfter("now", 0)
	r := start(env, l)
	defer r.end(t)
	if key := receive(t, seen, "not worked on"); key != "now" {
		t.Errorf("%s came first", key)
	}
	controllertest.Eventually(t, "a key waits", env.Clock.HasWaiters)
	env.Clock.Step(2 * time.Minute)
	if key := receive(t, seen, "the delayed key was lost"); key != "later" {
		t.Errorf("got %s", key)
	}
}

// Handlers of several kinds enqueue one owner at the same time. Pins WL-101.
func TestAKeyThatIsEnqueuedTwiceAtOnceKeepsItsLane(t *testing.T) {
	l := reconcile.New(controllertest.New(t).Env, reconcile.Options[int]{Queue: "q"}, func(context.Context, int) error { return nil })
	const keys = 10_000
	var handlers sync.WaitGroup
	for range 8 { // with two of them, they rarely meet at a key
		handlers.Go(func() {
			for key := range keys {
				l.Enqueue(reconcile.Backlog, key)
			}
		})
	}
	handlers.Wait()
	if is := l.Inspect(); is.Depth != keys || is.Backlog != keys {
		t.Errorf("%d of %d keys are in the backlog, want all of %d", is.Backlog, is.Depth, keys)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	env := controllertest.New(t)
	ignore := goleak.IgnoreCurrent()
	never := reconcile.New(env.Env, reconcile.Options[string]{Queue: "never"}, func(context.Context, string) error { return nil })
	never.Add("a") // a loop that is never run needs no cleaning up
	for i := range 100 {
		l := reconcile.New(env.Env, reconcile.Options[string]{Queue: fmt.Sprint("q", i), Workers: 3}, func(context.Context, string) error { return nil })
		l.Add("a")
		l.AddAfter("b", time.Hour)
		r := start(env, l)
		controllertest.Eventually(t, "a key is worked on", func() bool { return l.Inspect().Reconciled > 0 })
		r.end(t)
	}
	goleak.VerifyNone(t, ignore)
}

func TestMetricsBearClientGosNames(t *testing.T) {
	env := controllertest.New(t)
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "deployment", Workers: 1}, func(context.Context, string) error { return nil })
	l.Add("a")
	l.Add("b")
	want := `
# HELP workqueue_adds_total [BETA] Total number of adds handled by workqueue
# TYPE workqueue_adds_total counter
workqueue_adds_total{name="deployment"} 2
# HELP workqueue_depth [BETA] Current depth of workqueue
# TYPE workqueue_depth gauge
workqueue_depth{name="deployment"} 2
# HELP workqueue_longest_running_processor_seconds [BETA] How many seconds has the longest running processor for workqueue been running.
# TYPE workqueue_longest_running_processor_seconds gauge
workqueue_longest_running_processor_seconds{name="deployment"} 0
`
	err := testutil.GatherAndCompare(env.Metrics, strings.NewReader(want), "workqueue_adds_total", "workqueue_depth", "workqueue_longest_running_processor_seconds")
	if err != nil {
		t.Error(err)
	}
}
