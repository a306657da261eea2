package supervisor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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

// A controller may return because one of its handlers has panicked, before anybody has looked. Pins MGR-166.
func TestThePanicOfAHandlerIsTheReason(t *testing.T) {
	desired := map[string]string{}
	for n := range 20 { // which of two events is seen first is random
		desired[fmt.Sprint("c", n)] = "1"
	}
	h := newHarness(t, slices.Sorted(maps.Keys(desired))...)
	defer h.Shutdown()
	h.sync(wants(desired))
	looks, looked := make(chan struct{}), make(chan struct{})
	for name := range desired {
		i := h.instances(name)[0]
		i.mu.Lock()
		i.onLoops = func() {
			select {
			case looks <- struct{}{}:
				<-looked
			case <-looked:
			}
		}
		i.mu.Unlock()
	}
	h.clock.Step(5 * time.Second)
	for range desired {
		<-looks // from here on the supervisor waits for the answer
	}
	for name := range desired {
		i, u := h.instances(name)[0], h.units[name]
		u.mu.Lock()
		done := u.current.done
		u.mu.Unlock()
		i.failed(errors.New("boom"))
		i.ended <- nil
		<-done
	}
	close(looked)
	for name := range desired {
		h.eventually(name+" backs off", func() bool { return h.status(name).State == BackingOff })
		if s := h.status(name); s.LastError != "boom" || s.Restarts[string(causePanic)] != 1 {
			t.Errorf("%s: %s, restarts %v", name, s.LastError, s.Restarts)
		}
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
