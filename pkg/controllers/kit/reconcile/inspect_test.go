package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
)

var pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}

// The context of a reconcile says what it works on, and why.
func TestTheContextDescribesTheWork(t *testing.T) {
	env := controllertest.New(t)
	type contextKey struct{}
	seen := make(chan controller.Task, 1)
	var failing atomic.Bool
	l := reconcile.New(env.Env, reconcile.Options[string]{
		Queue: "q", Workers: 1,
		Backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
	}, func(ctx context.Context, _ string) error {
		if ctx.Value(contextKey{}) != nil {
			t.Error("the context has a value of somebody else")
		}
		derived, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		fails := failing.Load() // before the test learns of this work, and changes it for the next
		seen <- controller.WorkOf(derived)
		if fails {
			return errors.New("broken")
		}
		return nil
	})
	partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Widget"}, ObjectMeta: metav1.ObjectMeta{Name: "w"}}
	r := start(env, l)
	defer r.end(t)
	for _, test := range []struct {
		lane reconcile.Lane
		want string
	}{
		{reconcile.Fresh, ""},
		{reconcile.Backlog, ""},
		{reconcile.Fresh.Because(reconcile.Added, pod), "Pod ns/p added"},
		{reconcile.Fresh.Because(reconcile.Updated, partial), "Widget w updated"},
		{reconcile.Fresh.Because(reconcile.Updated, &metav1.PartialObjectMetadata{}), "object  updated"},
		{reconcile.Gone(pod), "Pod ns/p deleted"},
		{reconcile.Backlog.Because(reconcile.Replayed, pod), "start"},
		{reconcile.Backlog.Because(reconcile.Resynced, pod), "resync"},
	} {
		l.Enqueue(test.lane, "ns/a")
		if got := receive(t, seen, "not worked on"); got != (controller.Task{Queue: "q", Key: "ns/a", Trigger: test.want}) {
			t.Errorf("worked on %+v because of %q", got, test.want)
		}
	}
	clock := env.Clock
	timer := func(want string) {
		t.Helper()
		await.True(t, "a timer is set", clock.HasWaiters)
		await.That(t, want, func(context.Context) error {
			clock.Step(time.Second)
			select {
			case got := <-seen:
				if got.Trigger != want {
					t.Errorf("the trigger is %q, want %q", got.Trigger, want)
				}
				return nil
			default:
				return errors.New("it is not worked on")
			}
		})
	}
	failing.Store(true)
	l.AddAfter("ns/a", time.Second)
	timer("timer")
	timer("retry 1")
	timer("retry 2")
}

func TestTheNewestTriggerOfAWaitingKeyCounts(t *testing.T) {
	env := controllertest.New(t)
	l := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(context.Context, string) error { return nil })
	l.Enqueue(reconcile.Backlog.Because(reconcile.Replayed, pod), "a")
	want := func(trigger string) {
		t.Helper()
		if keys := l.Keys(func(string) bool { return true }); len(keys) != 1 || keys[0].Trigger != trigger || keys[0].State != controller.KeyQueued || keys[0].Since != env.Clock.Now() {
			t.Errorf("the loop holds %+v, want %q", keys, trigger)
		}
	}
	want("start")
	l.Enqueue(reconcile.Fresh.Because(reconcile.Added, pod), "a")
	want("Pod ns/p added")
	l.Enqueue(reconcile.Fresh.Because(reconcile.Updated, pod), "a")
	want("Pod ns/p updated")
	l.Enqueue(reconcile.Backlog.Because(reconcile.Resynced, pod), "a")
	want("Pod ns/p updated")
}

// Keys tells where a key is: in work, waiting for a worker, or waiting for its time after a
// failure.
func TestKeysTellsWhatTheLoopHolds(t *testing.T) {
	env := controllertest.New(t)
	entered, release := make(chan string), make(chan error)
	l := reconcile.New(env.Env, reconcile.Options[string]{
		Queue: "q", Workers: 1, MaxRetries: 2,
		Backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Minute, time.Hour),
	}, func(_ context.Context, key string) error {
		entered <- key
		return <-release
	})
	began := env.Clock.Now()
	expect := func(want ...controller.LoopKey) {
		t.Helper()
		await.That(t, "the loop holds what is expected", func(context.Context) error {
			if got := l.Keys(func(key string) bool { return key != "other" }); fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("it holds %+v, want %+v", got, want)
			}
			return nil
		})
	}
	l.Add("other")
	l.AddAfter("b", time.Hour)
	expect(controller.LoopKey{Queue: "q", Key: "b", State: controller.KeyDelayed, Until: began.Add(time.Hour), Trigger: "timer"})
	r := start(env, l)
	receive(t, entered, "not worked on")
	l.Enqueue(reconcile.Fresh.Because(reconcile.Added, pod), "a")
	later := controller.LoopKey{Queue: "q", Key: "b", State: controller.KeyDelayed, Until: began.Add(time.Hour), Trigger: "timer"}
	expect(controller.LoopKey{Queue: "q", Key: "a", State: controller.KeyQueued, Since: began, Trigger: "Pod ns/p added"}, later)
	release <- nil
	receive(t, entered, "not worked on")
	expect(controller.LoopKey{Queue: "q", Key: "a", State: controller.KeyInFlight, Since: began, Trigger: "Pod ns/p added"}, later)
	release <- errors.New("refused")
	expect(controller.LoopKey{
		Queue: "q", Key: "a", State: controller.KeyDelayed, Until: began.Add(time.Minute), Trigger: "retry", Retries: 1, LastError: "refused", LastErrorTime: began,
	}, later)
	l.Add("a") // an event does not wait
	receive(t, entered, "not worked on")
	release <- nil
	expect(controller.LoopKey{Queue: "q", Key: "a", State: controller.KeyDelayed, Until: began.Add(time.Minute), Trigger: "retry"}, later)
	r.end(t)
}

// slowTimers is a clock whose timers are late, as those of a busy process are.
type slowTimers struct{ clock.WithTicker }

func (c slowTimers) NewTimer(d time.Duration) clock.Timer {
	return c.WithTicker.NewTimer(d + time.Hour)
}

func (c slowTimers) NewTicker(d time.Duration) clock.Ticker {
	return c.WithTicker.NewTicker(d + time.Hour)
}

// A delay whose time has come is delivered for the next one, too, if that is given before.
func TestAKeyThatWasDeliveredDoesNotWait(t *testing.T) {
	env := controllertest.New(t)
	env.Env.Clock = slowTimers{env.Clock}
	reconciled, again := 0, make(chan struct{})
	var l *reconcile.Loop[string]
	l = reconcile.New(env.Env, reconcile.Options[string]{Queue: "q", Workers: 1}, func(_ context.Context, key string) error {
		switch reconciled++; reconciled {
		case 1:
			l.AddAfter(key, 30*24*time.Hour)
		case 2:
			close(again)
		}
		return nil
	})
	r := start(env, l)
	defer r.end(t)
	controllertest.Eventually(t, "the loop runs", func() bool { return !l.Inspect().Began.IsZero() })
	l.AddAfter("a", time.Minute)
	controllertest.Eventually(t, "the key waits", func() bool { return env.Clock.Waiters() == 2 })
	env.Clock.Step(time.Minute)
	l.Add("a")
	receive(t, again, "the first delay was lost")
	controllertest.Eventually(t, "the loop is done", func() bool { return len(l.Inspect().InFlight) == 0 })
	if held := l.Keys(func(string) bool { return true }); len(held) != 0 {
		t.Errorf("the loop holds %+v, want nothing", held)
	}
}
