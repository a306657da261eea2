package supervisor

import (
	"strings"
	"testing"
	"time"
)

func TestAHungInstanceIsFencedAndLeftBehind(t *testing.T) {
	h := newHarness(t, "a")
	h.sync(wants(map[string]string{"a": "1"}))
	hung := h.instances("a")[0]
	hang := hung.hang()
	if err := h.Synchronize(wants(map[string]string{"a": "2"}), CauseConfig, true); err != nil {
		t.Fatal(err)
	}
	h.stepUntil(time.Second, "generation 2 runs", func() bool { return h.status("a").Generation == 2 })
	hung.mu.Lock()
	if hung.fenced == nil || !strings.Contains(hung.fenced.Error(), "drain timeout") {
		t.Errorf("fenced: %v", hung.fenced)
	}
	hung.mu.Unlock()
	if s := h.status("a"); s.Abandoned != 1 || s.State != Running {
		t.Errorf("%+v", s)
	}
	close(hang)
	h.Shutdown()
}

// An event handler that does not return holds up neither the successor nor the end.
func TestAHungHandlerIsLeftBehind(t *testing.T) {
	h := newHarness(t, "a", "b")
	h.sync(wants(map[string]string{"a": "1", "b": "1"}))
	hung := h.instances("a")[0]
	hung.handler = make(chan struct{})
	defer close(hung.handler)
	if err := h.Synchronize(wants(map[string]string{"a": "2", "b": "1"}), CauseConfig, true); err != nil {
		t.Fatal(err)
	}
	h.stepUntil(time.Second, "generation 2 runs", func() bool { return h.status("a").Generation == 2 })
	if s := h.status("a"); s.Abandoned != 1 || s.State != Running {
		t.Errorf("%+v", s)
	}
	if s := h.status("b"); s.Generation != 1 {
		t.Errorf("b suffered: %+v", s)
	}
	h.Shutdown()
}
