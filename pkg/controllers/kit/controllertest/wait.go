package controllertest

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// patience bounds every wait.
const patience = 30 * time.Second

// Eventually waits for something that happens on another goroutine.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// EventuallyAsTimePasses is Eventually for what also takes time of the controller, whose
// clock moves on by step before each new look.
func (e *Env) EventuallyAsTimePasses(t testing.TB, what string, step time.Duration, done func() bool) {
	t.Helper()
	Eventually(t, what, func() bool {
		if done() {
			return true
		}
		e.Clock.Step(step)
		return false
	})
}
