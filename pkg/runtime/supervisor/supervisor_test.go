package supervisor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kcmd.dev/pkg/config/plan"
)

func TestOnlyChangedControllersAreReplaced(t *testing.T) {
	h := newHarness(t, "a", "b", "c")
	defer h.Shutdown()
	h.sync(wants(map[string]string{"a": "1", "b": "1"}))
	h.sync(wants(map[string]string{"a": "2", "b": "1", "c": "1"}))

	for name, generation := range map[string]uint64{"a": 2, "b": 1, "c": 1} {
		if s := h.status(name); s.Generation != generation || s.State != Running {
			t.Errorf("%s: %+v, want generation %d running", name, s, generation)
		}
	}
	old, successor := h.instances("a")[0], h.instances("a")[1]
	h.eventually("the successor runs", func() bool { ran, _ := successor.counts(); return ran == 1 })
	if old.closed != 1 || old.fenced == nil {
		t.Errorf("the replaced instance was not released: %+v", old)
	}
	if successor.predecessor != "from 1" {
		t.Errorf("the successor was handed %v", successor.predecessor)
	}
	h.sync(wants(map[string]string{"b": "1"}))
	if s := h.status("a"); s.State != Disabled {
		t.Errorf("a is %s, want disabled", s.State)
	}
	if s := h.status("b"); s.Generation != 1 {
		t.Errorf("b was replaced")
	}
}

func TestResyncChangesInPlace(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	w := wants(map[string]string{"a": "1"})
	h.sync(w)
	w["a"] = Want{State: Running, Spec: w["a"].Spec, Resync: time.Hour}
	h.sync(w)
	if i := h.instances("a"); len(i) != 1 || i[0].resync != time.Hour {
		t.Errorf("%d instances, resync %v", len(i), i[0].resync)
	}
}

func TestAFailedTransactionChangesNothing(t *testing.T) {
	h := newHarness(t, "a", "b")
	defer h.Shutdown()
	h.sync(wants(map[string]string{"a": "1", "b": "1"}))
	h.builder.refuse["b"] = errors.New("no such file")
	err := h.Synchronize(wants(map[string]string{"a": "2", "b": "2"}), CauseConfig, true)
	if err == nil || err.Error() != "b: no such file" {
		t.Errorf("got %v", err)
	}
	h.settle()
	for _, name := range []string{"a", "b"} {
		if s := h.status(name); s.Generation != 1 || s.State != Running {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if discarded := h.instances("a")[1]; discarded.ran != 0 || discarded.closed != 1 {
		t.Errorf("the instance built in vain: %+v", discarded)
	}
	// The failed attempt must not be mistaken for what is in force.
	delete(h.builder.refuse, "b")
	h.sync(wants(map[string]string{"a": "2", "b": "2"}))
	if s := h.status("b"); s.Generation != 2 {
		t.Errorf("b: %+v", s)
	}
}

func TestASuccessorWaitsForItsPredecessorAndNobodyElseDoes(t *testing.T) {
	h := newHarness(t, "slow", "quick")
	defer h.Shutdown()
	h.sync(wants(map[string]string{"slow": "1", "quick": "1"}))
	hang := h.instances("slow")[0].hang()
	if err := h.Synchronize(wants(map[string]string{"slow": "2", "quick": "2"}), CauseConfig, true); err != nil {
		t.Fatal(err)
	}
	h.eventually("quick runs generation 2", func() bool { return h.status("quick").Generation == 2 })
	h.eventually("slow is stopping", func() bool {
		s := h.status("slow")
		return s.Generation == 1 && s.State == Stopping
	})
	close(hang)
	h.settle()
	if s := h.status("slow"); s.Generation != 2 || s.State != Running {
		t.Errorf("slow: %+v", s)
	}
	if h.builder.overlaps != 0 {
		t.Error("two instances of one controller ran at once")
	}
}

// A lease that was won starts one controller after the other: the first does not wait for the last to be built.
// Pins MGR-197.
func TestAControllerStartsAsSoonAsItIsBuilt(t *testing.T) {
	h := newHarness(t, "first", "last")
	defer h.Shutdown()
	h.builder.onBuild = map[string]func(){"last": func() {
		h.eventually("first runs", func() bool { return h.status("first").State == Running })
	}}
	if err := h.Synchronize(wants(map[string]string{"first": "1", "last": "1"}), CauseLease, false); err != nil {
		t.Fatal(err)
	}
	h.settle()
	if s := h.status("last"); s.State != Running {
		t.Errorf("last: %+v", s)
	}
}

func TestTheNewestOfSeveralCommandsWins(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	h.sync(wants(map[string]string{"a": "1"}))
	hang := h.instances("a")[0].hang()
	for _, value := range []string{"2", "3", "4"} {
		if err := h.Synchronize(wants(map[string]string{"a": value}), CauseConfig, true); err != nil {
			t.Fatal(err)
		}
		h.eventually("stopping", func() bool { return h.status("a").State == Stopping })
	}
	close(hang)
	h.settle()
	h.eventually("the newest runs", func() bool { ran, _ := h.instances("a")[3].counts(); return ran == 1 })
	for n, i := range h.instances("a") {
		ran, closed := i.counts()
		// The first command was under way when the others came, the second was replaced
		// before its turn.
		value := i.spec.Planned.Value
		if (ran == 1) == (value == "3") {
			t.Errorf("instance %d with value %v ran %d times", n, value, ran)
		}
		if (closed == 1) == (value == "4") {
			t.Errorf("instance %d with value %v was closed %d times", n, value, closed)
		}
	}
}

// An instance that is going to be replaced ends before the command comes, which is no failure of it. One that is kept
// works on.
func TestAHaltedInstanceBeginsNothingMore(t *testing.T) {
	h := newHarness(t, "a", "b")
	defer h.Shutdown()
	h.sync(wants(map[string]string{"a": "1", "b": "1"}))
	prepared, err := h.Prepare(wants(map[string]string{"a": "2", "b": "1"}), CauseConfig)
	if err != nil {
		t.Fatal(err)
	}
	works := func(name string) bool {
		h.builder.mu.Lock()
		defer h.builder.mu.Unlock()
		return h.builder.running[name] == 1
	}
	h.eventually("both work", func() bool { return works("a") && works("b") })
	prepared.Halt()
	h.eventually("a has ended", func() bool { return !works("a") })
	h.clock.Step(time.Second) // its loop looks at it
	if !works("b") {
		t.Error("b has ended")
	}
	prepared.Commit()
	h.settle()
	s := h.status("a")
	if s.State != Running || s.Generation != 2 || s.Restarts[string(CauseConfig)] != 1 || s.Restarts[string(causeCrash)] != 0 || s.LastError != "" {
		t.Errorf("%+v", s)
	}
	if got := h.instances("a")[1]; got.predecessor != "from 1" {
		t.Errorf("the successor was handed %v", got.predecessor)
	}
}

// What is started between a halt and its command, because a wait was over, is halted, too.
func TestAnInstanceThatIsStartedLateIsHalted(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	h.builder.refuse["a"] = errors.New("broken")
	_ = h.Synchronize(wants(map[string]string{"a": "1"}), CauseConfig, false)
	h.eventually("it waits", func() bool { return h.status("a").State == BackingOff })
	h.builder.mu.Lock()
	delete(h.builder.refuse, "a")
	h.builder.mu.Unlock()
	prepared, err := h.Prepare(wants(map[string]string{"a": "2"}), CauseConfig)
	if err != nil {
		t.Fatal(err)
	}
	prepared.Halt()
	h.stepUntil(time.Second, "the wait is over", func() bool { return len(h.instances("a")) == 2 })
	late := h.instances("a")[1]
	h.eventually("the instance has ended", func() bool {
		ran, _ := late.counts()
		h.builder.mu.Lock()
		defer h.builder.mu.Unlock()
		return ran == 1 && h.builder.running["a"] == 0
	})
	prepared.Commit()
	h.settle()
	if s := h.status("a"); s.State != Running || s.Restarts[string(causeCrash)] != 0 {
		t.Errorf("%+v", s)
	}
}

func TestStandbyKeepsWarmAndRunsNothing(t *testing.T) {
	h := newHarness(t, "a")
	standby := map[string]Want{"a": {State: Standby, Spec: Spec{Planned: plan.Spec{Value: "1"}}, Reason: "another process holds the lease"}}
	h.sync(standby)
	if h.builder.warm != 1 || len(h.instances("a")) != 0 {
		t.Errorf("warm %d, instances %d", h.builder.warm, len(h.instances("a")))
	}
	h.sync(wants(map[string]string{"a": "1"}))
	if h.builder.warm != 0 || h.status("a").State != Running {
		t.Errorf("warm %d, %+v", h.builder.warm, h.status("a"))
	}
	h.sync(standby)
	if h.builder.warm != 1 || h.status("a").State != Standby {
		t.Errorf("warm %d, %+v", h.builder.warm, h.status("a"))
	}
	h.Shutdown()
	if h.builder.warm != 0 {
		t.Error("the shutdown kept caches warm")
	}
}

// A paused controller has no instance, and goes on where it was when it is resumed.
func TestAPausedControllerKeepsWarm(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	spec := Spec{Planned: plan.Spec{Value: "1"}}
	running, paused := map[string]Want{"a": {State: Running, Spec: spec}}, map[string]Want{"a": {State: Paused, Spec: spec, Reason: "paused in the configuration"}}
	h.sync(running)
	h.sync(paused)
	if s := h.status("a"); h.builder.warm != 1 || s.State != Paused || s.Reason != "paused in the configuration" {
		t.Errorf("warm %d, %+v", h.builder.warm, s)
	}
	h.sync(running)
	if s := h.status("a"); h.builder.warm != 0 || s.State != Running || s.Generation != 2 {
		t.Errorf("warm %d, %+v", h.builder.warm, s)
	}
}

func TestAControllerWithNothingToDoIsIdle(t *testing.T) {
	h := newHarness(t, "a")
	defer h.Shutdown()
	h.sync(wants(map[string]string{"a": "idle"}))
	if s := h.status("a"); s.State != Idle || s.Generation != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAThousandReplacementsLeaveNothingBehind(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	h := newHarness(t, "a", "b")
	for n := range 1000 {
		h.sync(wants(map[string]string{"a": strings.Repeat("x", 1+n%2), "b": "1"}))
	}
	h.Shutdown()
	goleak.VerifyNone(t, ignore)
	for _, i := range h.builder.built {
		if i.closed != 1 {
			t.Fatalf("an instance was closed %d times", i.closed)
		}
	}
	if h.status("a").Generation != 1000 || h.builder.overlaps != 0 {
		t.Errorf("generation %d, overlaps %d", h.status("a").Generation, h.builder.overlaps)
	}
}
