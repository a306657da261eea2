package faults

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/must"
)

// TestUpstreamComesToTheSameEnd plays scenarios with upstream's manager, with ours, and with both in turns. It takes long,
// and runs only with KCMD_DROPIN.
func TestUpstreamComesToTheSameEnd(t *testing.T) {
	if os.Getenv("KCMD_DROPIN") == "" {
		t.Skip("make dropin runs it")
	}
	bare := sync.OnceValue(func() *controlplane.ControlPlane { return startBare(t) })
	for _, s := range append(Scenarios(), Comparisons()...) {
		if !s.hasUnderstudy() {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			at := plane
			if s.Bare {
				at = bare()
			}
			compareCasts(t, at, &s)
		})
	}
}

// compareCasts plays a scenario with upstream's manager, and then with each of the casts.
func compareCasts(t *testing.T, at *controlplane.ControlPlane, s *Scenario) {
	t.Helper()
	want := must.Get(act(t, at, s, func(int) actor { return theirs }, nil))(t)
	// What upstream's manager does when it is restarted is no difference from it.
	restarted := sync.OnceValues(func() ([]string, error) {
		got, err := act(t, at, s, func(step int) actor { return []actor{theirs, again}[step%2] }, &want)
		return compare(&want, &got), err
	})
	for name, cast := range casts {
		t.Run(name, func(t *testing.T) {
			got, err := act(t, at, s, cast, &want)
			if err != nil {
				var stall *stallError
				if errors.As(err, &stall) && stall.actor == theirs {
					if _, stalls := restarted(); stalls != nil {
						t.Skipf("upstream's manager does not come to the end either if it is restarted: %v", stalls)
					}
				}
				t.Fatal(err)
			}
			differences := compare(&want, &got)
			if name == "ours" { // another manager has measured a part only
				differences = append(differences, unlike(want.series, got.series)...)
			}
			violations := s.unexplained(differences, name == "ours")
			if len(violations) > 0 && name != "ours" {
				others, err := restarted()
				must.Succeed(t, err)
				violations = beyond(violations, others)
			}
			if len(violations) > 0 {
				t.Errorf("upstream's writes: %v\nwrites: %v\nviolated:\n  %s", want.writes, got.writes, strings.Join(violations, "\n  "))
			}
		})
	}
}

var casts = map[string]func(step int) actor{
	"ours":            func(int) actor { return ours },
	"theirs and ours": func(step int) actor { return []actor{theirs, ours}[step%2] },
	"ours and theirs": func(step int) actor { return []actor{ours, theirs}[step%2] },
}

// act plays a scenario.
func act(t *testing.T, at *controlplane.ControlPlane, s *Scenario, cast func(int) actor, want *ending) (ending, error) {
	t.Helper()
	w := newWorld(t, at, s)
	if s.Place != "" { // others may have used it
		must.Succeed(t, w.clear(t.Context(), s.Kinds))
	}
	p := &play{scenario: s, world: w, plane: at, cast: cast}
	end, err := p.perform(t.Context(), want)
	must.Succeed(t, w.clear(t.Context(), s.Kinds)) // what a failure leaves would be in the way of others
	return end, err
}
