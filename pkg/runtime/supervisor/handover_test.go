package supervisor

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"kcmd.dev/pkg/config/plan"
)

// spec is what the instances of a hand-over test are made from.
func spec(value string, clients uint64) Spec {
	return Spec{Planned: plan.Spec{Value: value}, Clients: clients, Term: 1}
}

func runs(s Spec) map[string]Want { return map[string]Want{"a": {State: Running, Spec: s}} }

func TestWhatIsHandedOverBelongsToAConnectionAndATime(t *testing.T) {
	standby := func(clients uint64) func(*harness) {
		return func(h *harness) {
			h.sync(map[string]Want{"a": {State: Standby, Spec: spec("1", clients)}})
		}
	}
	paused := func(clients uint64) func(*harness) {
		return func(h *harness) {
			h.sync(map[string]Want{"a": {State: Paused, Spec: spec("1", clients)}})
		}
	}
	in := func(s State) func(*harness) {
		return func(h *harness) { h.sync(map[string]Want{"a": {State: s}}) }
	}
	pass := func(d time.Duration) func(*harness) {
		return func(h *harness) { h.clock.Step(d) }
	}
	for _, test := range []struct {
		name string
		then []func(*harness)
		next Spec
		want any
	}{
		{"replaced", nil, spec("2", 1), "from 1"},
		{"another connection", nil, spec("2", 2), nil},
		{"after a standby", []func(*harness){standby(1), pass(4 * time.Minute)}, spec("2", 1), "from 1"},
		{"under a later term", []func(*harness){standby(1)}, Spec{Planned: plan.Spec{Value: "2"}, Clients: 1, Term: 7}, "from 1"},
		{"after a long standby", []func(*harness){standby(1), pass(handOverTime)}, spec("2", 1), nil},
		{"a standby on another connection", []func(*harness){standby(2)}, spec("2", 1), nil},
		{"after waiting for an API", []func(*harness){in(Waiting), pass(time.Minute)}, spec("2", 1), "from 1"},
		{"after waiting for an API, on another connection", []func(*harness){in(Waiting)}, spec("2", 2), nil},
		{"after a pause", []func(*harness){paused(1), pass(4 * time.Minute)}, spec("2", 1), "from 1"},
		{"after a pause on another connection", []func(*harness){paused(2)}, spec("2", 1), nil},
		{"after waiting for long", []func(*harness){in(Waiting), pass(handOverTime)}, spec("2", 1), nil},
		{"after it was disabled", []func(*harness){in(Disabled)}, spec("2", 1), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, "a")
			defer h.Shutdown()
			h.sync(runs(spec("1", 1)))
			for _, then := range test.then {
				then(h)
			}
			h.sync(runs(test.next))
			instances := h.instances("a")
			last := instances[len(instances)-1]
			h.eventually("it runs", func() bool { ran, _ := last.counts(); return ran == 1 })
			if last.predecessor != test.want {
				t.Errorf("handed %v, want %v", last.predecessor, test.want)
			}
		})
	}
}

// An instance that waits for its caches passes on what it was given, which is no newer by that.
func TestWhatIsPassedOnExpiresAsWell(t *testing.T) {
	for name, test := range map[string]struct {
		each time.Duration
		want any
	}{
		"soon":              {time.Minute, "from 1"},
		"after a while":     {2 * time.Minute, nil},
		"after a long wait": {handOverTime, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "a")
			defer h.Shutdown()
			h.sync(runs(spec("1", 1)))
			h.sync(runs(spec("2", 1)))
			for _, next := range []string{"3", "4"} {
				instances := h.instances("a")
				last := instances[len(instances)-1]
				h.eventually("it has begun", func() bool { ran, _ := last.counts(); return ran == 1 })
				last.mu.Lock()
				last.waits = true
				last.mu.Unlock()
				h.clock.Step(test.each)
				h.sync(map[string]Want{"a": {State: Standby, Spec: spec("1", 1)}})
				h.clock.Step(test.each / 2)
				h.sync(runs(spec(next, 1)))
			}
			last := h.instances("a")[3]
			h.eventually("it runs", func() bool { ran, _ := last.counts(); return ran == 1 })
			if last.predecessor != test.want {
				t.Errorf("handed %v, want %v", last.predecessor, test.want)
			}
		})
	}
}

// A controller that cannot be built for long keeps no memory for the day it can.
func TestWhatIsHandedOverExpiresWhileTheControllerBacksOff(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	h.sync(runs(spec("1", 1)))
	h.builder.mu.Lock()
	h.builder.refuse["a"] = errEnded
	h.builder.mu.Unlock()
	h.instances("a")[0].ended <- errEnded
	h.eventually("it backs off", func() bool { return h.status("a").State == BackingOff })
	h.clock.Step(handOverTime)
	h.builder.mu.Lock()
	delete(h.builder.refuse, "a")
	h.builder.mu.Unlock()
	h.stepUntil(100*time.Millisecond, "it runs", func() bool { return h.status("a").State == Running })
	last := h.instances("a")[1]
	h.eventually("it has begun", func() bool { ran, _ := last.counts(); return ran == 1 })
	if last.predecessor != nil {
		t.Errorf("handed %v", last.predecessor)
	}
}

func TestAStandbyGivesTheMemoryBack(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	h.sync(runs(spec("1", 1)))
	i := h.instances("a")[0]
	leave := func() weak.Pointer[[1 << 20]byte] {
		large := new([1 << 20]byte)
		i.mu.Lock()
		defer i.mu.Unlock()
		i.leaves = large
		return weak.Make(large)
	}
	kept := leave()
	h.sync(map[string]Want{"a": {State: Standby, Spec: spec("1", 1)}})
	i.mu.Lock()
	i.leaves = nil
	i.mu.Unlock()
	runtime.GC()
	if kept.Value() == nil {
		t.Fatal("it is not kept at all")
	}
	h.clock.Step(handOverTime)
	h.eventually("the memory is given back", func() bool {
		runtime.GC()
		return kept.Value() == nil
	})
}
