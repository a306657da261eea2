package simulation

import (
	"context"
	"slices"
	"testing"
	"time"

	"kcmd.dev/pkg/controller"
)

func TestPassesFollowEachOtherAfterAPeriod(t *testing.T) {
	w := New(t, 1)
	var at []time.Duration
	began := w.Clock.Now()
	w.Start = func(controller.Env, any) Instance {
		passes := NewPasses(w, time.Second, time.Minute, func(context.Context) {
			at = append(at, w.Clock.Since(began))
			w.Clock.Step(time.Second) // a pass takes as long
		})
		return Instance{Runners: []Runner{passes}}
	}
	w.Begin()
	w.Settle(2*time.Minute, nil)
	if want := []time.Duration{time.Second, 62 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("passes begin at %v, want %v", at, want)
	}
}
