package pvbinder

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/test/controllertest"
)

// await waits for the operations that run.
func (o *operationSet) await() {
	o.mu.Lock()
	var waits []func()
	for _, wait := range o.running {
		waits = append(waits, wait)
	}
	o.mu.Unlock()
	for _, wait := range waits {
		wait()
	}
}

func runnable(t *testing.T) (*operationSet, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(controllertest.Epoch)
	o := newOperations(clock)
	o.begin(t.Context(), t.Context())
	return o, clock
}

// Pins PVB-46.
func TestAnOperationRunsOnceAtATime(t *testing.T) {
	o, _ := runnable(t)
	release, runs := make(chan struct{}), 0
	wait := func(context.Context, context.Context) error { runs++; <-release; return nil }
	o.start("a", wait)
	o.start("a", wait)
	close(release)
	o.await()
	if runs != 1 {
		t.Errorf("it ran %d times at once", runs)
	}
	o.start("a", wait)
	o.await()
	if runs != 2 {
		t.Errorf("after a success it ran %d times", runs)
	}
}

// Pins PVB-46 and PVB-94.
func TestAFailedOperationIsBlocked(t *testing.T) {
	o, clock := runnable(t)
	runs, result := 0, errors.New("failed")
	run := func() {
		o.start("a", func(context.Context, context.Context) error { runs++; return result })
		o.await()
	}
	run()
	backoff := 500 * time.Millisecond
	for n := 1; n < 12; n++ {
		clock.Step(backoff)
		if run(); runs != n {
			t.Fatalf("blocked for less than %v", backoff)
		}
		clock.Step(time.Nanosecond)
		if run(); runs != n+1 {
			t.Fatalf("blocked for more than %v", backoff)
		}
		backoff = min(2*backoff, 122*time.Second)
	}
	o.start("b", func(context.Context, context.Context) error { runs = 0; return nil })
	o.await()
	if runs != 0 {
		t.Error("another name is blocked")
	}
	clock.Step(time.Hour)
	result = nil
	if run(); len(o.failures()) != 0 {
		t.Errorf("after a success there are %v", o.failures())
	}
}

// Pins PVB-46.
func TestAPanicIsAFailure(t *testing.T) {
	o, _ := runnable(t)
	o.start("a", func(context.Context, context.Context) error { panic("x") })
	o.await()
	if !o.isBlocked("a") {
		t.Error("it is not blocked")
	}
}

// Pins PVB-109 and PVB-110.
func TestOperationsEndWithTheInstance(t *testing.T) {
	o, _ := runnable(t)
	ctx, stop := context.WithCancel(t.Context())
	o.begin(ctx, t.Context())
	ended := false
	o.start("a", func(stopping, working context.Context) error {
		<-stopping.Done()
		ended = working.Err() == nil
		return errors.New("failed")
	})
	stop()
	if err := o.finish(ctx); err != nil || !ended {
		t.Errorf("it had not ended: %v", err)
	}
	o.start("b", func(context.Context, context.Context) error { t.Error("it was started after the stop"); return nil })

	successor := newOperations(o.clock)
	successor.takeOver(o.failures())
	successor.begin(t.Context(), t.Context())
	successor.start("a", func(context.Context, context.Context) error { t.Error("the failure was not handed over"); return nil })
	successor.await()
}
