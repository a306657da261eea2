package supervisor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/test/await"
)

// begin asks for a and b in a term.
func (h *harness) begin(term uint64, cause Cause) {
	h.Helper()
	all := wants(map[string]string{"a": "1", "b": "1"})
	for name, w := range all {
		w.Spec.Term = term
		all[name] = w
	}
	if err := h.Synchronize(all, cause, false); err != nil {
		h.Fatal(err)
	}
	h.settle()
}

// running counts the controllers that run.
func (h *harness) running() (n int) {
	for _, s := range h.Status() {
		if s.State == Running {
			n++
		}
	}
	return n
}

// Pins MGR-73 and MGR-162.
func TestControllersOfATermStartOneAfterAnother(t *testing.T) {
	for _, cause := range []Cause{CauseStart, CauseLease, CauseAPI} {
		t.Run(string(cause), func(t *testing.T) {
			h := newHarness(t, "a", "b")
			defer h.Shutdown()
			h.SetStartInterval(time.Minute)
			h.begin(1, cause)
			for _, s := range h.Status() {
				if ok, _ := s.Healthy(); s.State != Waiting || !strings.HasPrefix(s.Reason, "starts after a delay of 1m") || !ok {
					t.Errorf("%s is %s: %s", s.Name, s.State, s.Reason)
				}
			}
			h.clock.Step(time.Minute - time.Millisecond)
			await.Stays(t, "the interval holds them back", 50*time.Millisecond, func(context.Context) error {
				if n := h.running(); n != 0 {
					return fmt.Errorf("%d run before it is over", n)
				}
				return nil
			})
			h.clock.Step(time.Minute + time.Millisecond)
			h.eventually("both run", func() bool { return h.running() == 2 })
		})
	}
}

// Only the beginning of a term is spread: what restarts later restarts at once.
func TestLaterStartsAreNotSpread(t *testing.T) {
	h := newHarness(t, "a", "b")
	defer h.Shutdown()
	h.begin(1, CauseLease)
	h.eventually("both run", func() bool { return h.running() == 2 })
	h.SetStartInterval(time.Minute)
	h.sync(wants(map[string]string{"a": "2", "b": "2"}))
	if n := h.running(); n != 2 {
		t.Errorf("%d run after an edit", n)
	}
	h.instances("a")[1].ended <- nil
	h.stepUntil(100*time.Millisecond, "a is back after a crash", func() bool { return h.status("a").Generation == 3 })
	h.begin(2, CauseLease)
	if n := h.running(); n != 0 {
		t.Errorf("%d run at once in the next term", n)
	}
}

// Nothing is left of the wait once it has begun to run. Pins MGR-197.
func TestAnInstanceThatWaitedIsClosedOnce(t *testing.T) {
	h := newHarness(t, "a")
	h.SetStartInterval(time.Minute)
	h.begin(1, CauseLease)
	h.stepUntil(time.Minute, "it runs", func() bool { return h.running() == 1 })
	h.sync(wants(map[string]string{"a": "2"}))
	h.Shutdown()
	for n, i := range h.instances("a") {
		if ran, closed := i.counts(); ran != 1 || closed != 1 {
			t.Errorf("instance %d ran %d times and was closed %d times", n, ran, closed)
		}
	}
}

// A wait ends at once when something else is decided, and nothing is left of it. Pins MGR-197.
func TestWaitForAStartIsInterrupted(t *testing.T) {
	h := newHarness(t, "a", "b")
	h.SetStartInterval(time.Hour)
	h.begin(1, CauseLease)
	h.sync(map[string]Want{"a": {State: Running, Spec: spec("2", 0)}, "b": {State: Standby, Spec: Spec{Planned: plan.Spec{Value: "1"}}}})
	if s := h.status("a"); s.State != Running {
		t.Errorf("after an edit a is %s", s.State)
	}
	for _, name := range []string{"a", "b"} {
		if ran, closed := h.instances(name)[0].counts(); ran != 0 || closed != 1 {
			t.Errorf("the instance of %s that waited ran %d times and was closed %d times", name, ran, closed)
		}
	}
	h.begin(2, CauseLease)
	h.Shutdown()
	for _, name := range []string{"a", "b"} {
		for _, i := range h.instances(name) {
			if _, closed := i.counts(); closed != 1 {
				t.Errorf("an instance of %s was closed %d times", name, closed)
			}
		}
	}
}
