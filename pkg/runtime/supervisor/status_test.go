package supervisor

import (
	"strings"
	"testing"
	"time"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
)

func TestAStuckInstanceIsReplaced(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	h.sync(wants(map[string]string{"a": "1"}))
	i := h.instances("a")[0]
	i.mu.Lock()
	i.loops = []controller.LoopStatus{{Queue: "q", InFlight: []controller.InFlight{{Key: "ns/x", Since: h.clock.Now()}}}}
	i.mu.Unlock()
	h.stepUntil(time.Minute, "a is found to be stuck", func() bool { return h.status("a").Restarts[string(causeStuck)] == 1 })
	h.eventually("the reason is reported", func() bool { return strings.Contains(h.status("a").LastError, "ns/x") })
	// From now on in small steps: building the next instance has a limit of time.
	h.stepUntil(100*time.Millisecond, "a is replaced", func() bool { return h.status("a").Generation == 2 })
}

// A stuck instance takes long to end, and meanwhile the controller is to stand by: then nothing is stuck any more.
func TestAStandbyIsNotStuck(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	h.sync(wants(map[string]string{"a": "1"}))
	i := h.instances("a")[0]
	defer close(i.hang())
	i.mu.Lock()
	i.loops = []controller.LoopStatus{{Queue: "q", InFlight: []controller.InFlight{{Key: "ns/x", Since: h.clock.Now()}}}}
	i.mu.Unlock()
	h.stepUntil(time.Minute, "a is found to be stuck", func() bool { return h.status("a").Stuck != "" })
	standby := map[string]Want{"a": {State: Standby, Spec: Spec{Planned: plan.Spec{Value: "1"}}}}
	if err := h.Synchronize(standby, CauseLease, false); err != nil {
		t.Fatal(err)
	}
	h.stepUntil(time.Second, "a stands by", func() bool { return h.status("a").State == Standby })
	if ok, why := h.status("a").Healthy(); !ok {
		t.Error(why)
	}
}

func TestKeysOfControllersThatRun(t *testing.T) {
	h := newHarness(t, "a", "b", "c")
	defer h.Shutdown()
	h.sync(wants(map[string]string{"a": "1", "b": "1"}))
	i := h.instances("a")[0]
	i.mu.Lock()
	i.keys = []controller.LoopKey{{Key: "ns/x"}, {Key: "ns/y"}}
	i.mu.Unlock()
	got := h.Keys(func(key string) bool { return key == "ns/y" })
	if len(got) != 1 || len(got["a"]) != 1 || got["a"][0].Key != "ns/y" {
		t.Errorf("the keys are %+v", got)
	}
}

func TestKeysThatAreHeldBackAreShown(t *testing.T) {
	for _, test := range []struct {
		held []int
		want string
	}{{nil, ""}, {[]int{0, 0}, ""}, {[]int{1, 0}, "1 key is held back by a pause"}, {[]int{1, 2}, "3 keys are held back by a pause"}} {
		var loops []controller.LoopStatus
		for _, n := range test.held {
			loops = append(loops, controller.LoopStatus{Held: n})
		}
		if got := heldBack(loops); got != test.want {
			t.Errorf("%v: %q, want %q", test.held, got, test.want)
		}
	}
}

func TestKeysThatWaitForTheBreakerAreShown(t *testing.T) {
	for _, test := range []struct {
		waiting []int
		want    string
	}{
		{nil, ""}, {[]int{0, 0}, ""}, {[]int{1, 0}, "1 key waits until deletions go on (deletionBreaker)"},
		{[]int{1, 2}, "3 keys wait until deletions go on (deletionBreaker)"},
	} {
		var loops []controller.LoopStatus
		for _, n := range test.waiting {
			loops = append(loops, controller.LoopStatus{Stopped: n})
		}
		if got := stopped(loops); got != test.want {
			t.Errorf("%v: %q, want %q", test.waiting, got, test.want)
		}
	}
}
