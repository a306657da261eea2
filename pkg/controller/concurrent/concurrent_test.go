package concurrent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var errBoom = errors.New("boom")

func explode() { panic(errBoom) }

// wantRaised calls f, which is to raise the panic of explode as it was caught.
func wantRaised(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		raised, ok := recover().(*PanicError)
		if !ok || !errors.Is(raised, errBoom) || !strings.Contains(string(raised.Stack), "explode") {
			t.Errorf("raised %v", raised)
		}
	}()
	f()
}

func TestAPanicIsRaisedInTheGoroutineThatWaits(t *testing.T) {
	for name, f := range map[string]func(){
		"start": func() { Start(explode)() },
		"each":  func() { Each(3, 0, func(int) { explode() }) },
		"run":   func() { _ = Run(t.Context(), func(context.Context) error { explode(); return nil }) },
		"one in another": func() {
			Each(1, 0, func(int) { Start(explode)() })
		},
	} {
		t.Run(name, func(t *testing.T) { wantRaised(t, f) })
	}
}

func TestAPanicKeepsNothingElseFromBeingFinished(t *testing.T) {
	var calls atomic.Int32
	wantRaised(t, func() {
		Each(10, 2, func(i int) {
			calls.Add(1)
			if i == 0 {
				explode()
			}
		})
	})
	if got := calls.Load(); got != 10 {
		t.Errorf("%d calls, want 10", got)
	}
}

func TestEachKeepsToItsLimit(t *testing.T) {
	for _, limit := range []int{1, 3} {
		// As many calls as are allowed wait for each other, so there are never fewer either.
		var now, most atomic.Int32
		var together sync.WaitGroup
		together.Add(limit)
		Each(3*limit, limit, func(i int) {
			most.Store(max(most.Load(), now.Add(1)))
			if i < limit {
				together.Done()
				together.Wait()
			}
			now.Add(-1)
		})
		if got := int(most.Load()); got != limit {
			t.Errorf("%d calls at once, want %d", got, limit)
		}
	}
	Each(0, 0, func(int) { t.Error("called for nothing") })
}

func TestRunEndsTheOthersWhenAPartEndsBadly(t *testing.T) {
	ended := func(err error) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, err) {
				t.Errorf("ended because of %v, want %v", cause, err)
			}
			return nil
		}
	}
	err := Run(t.Context(), ended(errBoom), func(context.Context) error { return errBoom }, ended(errBoom))
	if !errors.Is(err, errBoom) {
		t.Errorf("got %v", err)
	}
	wantRaised(t, func() {
		_ = Run(t.Context(), ended(errPanicked), func(context.Context) error { explode(); return nil })
	})
}

func TestRunGoesOnWhenAPartIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	err := Run(ctx,
		func(context.Context) error { close(done); return nil },
		func(ctx context.Context) error {
			<-done
			if ctx.Err() != nil {
				t.Error("a part that is done has ended the others")
			}
			cancel()
			<-ctx.Done()
			return nil
		})
	if err != nil {
		t.Error(err)
	}
}

func TestCatchReturnsWhatWasNotRaised(t *testing.T) {
	if caught := Catch(func() {}); caught != nil {
		t.Errorf("caught %v", caught)
	}
	if caught := Catch(func() { panic("text") }); caught == nil || caught.Value != "text" || caught.Unwrap() != nil {
		t.Errorf("caught %v", caught)
	}
}
