package supervisor

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Pins MGR-166.
func TestFailuresAreIsolatedAndBackOff(t *testing.T) {
	for name, fail := range map[string]func(i *fakeInstance){
		"returns an error":        func(i *fakeInstance) { i.ended <- errors.New("broken") },
		"returns without a cause": func(i *fakeInstance) { i.ended <- nil },
		"panics in a handler":     func(i *fakeInstance) { i.failed(errors.New("panic")) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "a", "b")
			defer h.Shutdown()
			h.sync(wants(map[string]string{"a": "1", "b": "1"}))
			fail(h.instances("a")[0])
			h.eventually("a backs off", func() bool { return h.status("a").State == BackingOff })
			s := h.status("a")
			if ok, why := s.Healthy(); ok || s.LastError == "" || !strings.Contains(why, s.LastError) {
				t.Errorf("%+v is healthy: %v %s", s, ok, why)
			}
			h.stepUntil(100*time.Millisecond, "a runs again", func() bool { return h.status("a").State == Running })
			if s := h.status("a"); s.Generation != 2 {
				t.Errorf("%+v", s)
			}
			if s := h.status("b"); s.Generation != 1 || s.State != Running {
				t.Errorf("b suffered: %+v", s)
			}
		})
	}
}

// Pins MGR-166.
func TestAPanicInRunIsAFailure(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	h.builder.refuse["a"] = errors.New("later")
	if err := h.Synchronize(wants(map[string]string{"a": "1"}), CauseStart, false); err == nil {
		t.Fatal("the failure to build was not reported")
	}
	h.eventually("a backs off", func() bool { return h.status("a").State == BackingOff })
	h.builder.mu.Lock()
	delete(h.builder.refuse, "a")
	h.builder.mu.Unlock()
	h.stepUntil(100*time.Millisecond, "a runs", func() bool { return h.status("a").State == Running })

	w := wants(map[string]string{"a": "2"})
	m := h.units["a"].prepare(w["a"], CauseConfig)
	m.instance.(*fakeInstance).onRun = func() { panic("boom") }
	h.units["a"].command(m)
	h.eventually("a backs off", func() bool { return strings.Contains(h.status("a").LastError, "boom") })
	if s := h.status("a"); s.Restarts[string(causePanic)] != 1 {
		t.Errorf("restarts: %v", s.Restarts)
	}
}

func TestBackoffGrowsUntilACommandComes(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	h.builder.refuse["a"] = errors.New("broken")
	_ = h.Synchronize(wants(map[string]string{"a": "1"}), CauseStart, false)
	for _, delay := range []string{"1s", "2s", "4s", "8s"} {
		h.stepUntil(100*time.Millisecond, "next attempt in "+delay, func() bool { return h.status("a").Reason == "next attempt in "+delay })
	}
	_ = h.Synchronize(wants(map[string]string{"a": "2"}), CauseConfig, false)
	h.eventually("the backoff begins anew", func() bool { return h.status("a").Reason == "next attempt in 1s" })
}
