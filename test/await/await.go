// Package await is how tests wait: for a condition, with a deadline, and with what was
// wrong last in the failure.
package await

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// patience bounds a wait that has no bound of its own. It is long because the machine
	// may be busy; nothing takes it when all is well.
	patience = time.Minute
	// shortest and longest bound the time between two checks, which grows: what takes a moment
	// is noticed at once, and what takes long costs little.
	shortest, longest = time.Millisecond, 25 * time.Millisecond
)

// That waits until check returns nil, at most a minute. What completes "waiting until …" in
// the failure. An error of Final ends the wait at once.
func That(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	Within(t, patience, what, check)
}

// Within is That with a bound of the test's: for what takes long, or must not.
func Within(t testing.TB, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	if err := Nil(t.Context(), limit, check); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// True waits until a condition holds that has nothing to say about why it does not, at most a
// minute.
func True(t testing.TB, what string, holds func() bool) {
	t.Helper()
	That(t, what, func(context.Context) error {
		if !holds() {
			return errNotYet
		}
		return nil
	})
}

var errNotYet = errors.New("not yet")

// Nil is Within outside of a test. Its error joins the cause of the end with what check
// returned last, other than that it was interrupted.
func Nil(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pause := shortest
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var last error
	for {
		err := check(ctx)
		switch {
		case err == nil:
			return nil
		case errors.As(err, new(final)):
			return err
		case ctx.Err() == nil || last == nil:
			last = err
		}
		select {
		case <-timer.C:
			pause = min(pause*3/2, longest)
			timer.Reset(pause)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		}
	}
}

// Stays fails the test if check returns an error within a time. What completes "it ceased
// that …" in the failure.
func Stays(t testing.TB, what string, d time.Duration, check func(context.Context) error) {
	t.Helper()
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(longest)
	defer tick.Stop()
	for {
		if err := check(t.Context()); err != nil {
			t.Fatalf("it ceased that %s: %v", what, err)
		}
		select {
		case <-tick.C:
		case <-end.C:
			return
		}
	}
}

// Elapse returns when some time has passed: for tests in which the delay itself is what is
// tested, such as that of a file which reaches one process later than the other.
func Elapse(t testing.TB, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}

// final is an error that waiting cannot cure.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Final marks an error as one that waiting cannot cure.
func Final(err error) error { return final{err} }

// Existing makes the error of a GET final if the object does not exist any more.
func Existing(err error) error {
	if apierrors.IsNotFound(err) {
		return final{err}
	}
	return err
}

// Gone turns the answer to a GET into an error unless the object does not exist.
func Gone(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return errors.New("it still exists")
	}
	return err
}
