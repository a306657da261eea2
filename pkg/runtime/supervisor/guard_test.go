package supervisor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
)

// misbehaviours are what a controller may do wherever it is called.
func misbehaviours(t *testing.T) map[string]func() {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	return map[string]func(){
		"panics": func() { panic("boom") },
		"hangs":  func() { <-hang },
	}
}

// A lock left held by a panic is the usual reason why something hangs.
func TestAHandOverThatFailsHoldsUpNothing(t *testing.T) {
	for name, misbehave := range misbehaviours(t) {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "a", "b")
			h.sync(wants(map[string]string{"a": "1", "b": "1"}))
			h.instances("a")[0].onHandOver = misbehave
			if err := h.Synchronize(wants(map[string]string{"a": "2", "b": "1"}), CauseConfig, true); err != nil {
				t.Fatal(err)
			}
			h.stepUntil(time.Second, "generation 2 runs", func() bool { return h.status("a").Generation == 2 })
			h.settle()
			h.eventually("it has begun", func() bool { ran, _ := h.instances("a")[1].counts(); return ran == 1 })
			if got := h.instances("a")[1].predecessor; got != nil {
				t.Errorf("the successor was handed %v", got)
			}
			s := h.status("a")
			if s.HandOverError == "" || s.State != Running {
				t.Errorf("%+v", s)
			}
			h.eventually("the instance is closed", func() bool { _, closed := h.instances("a")[0].counts(); return closed == 1 })
			if s := h.status("b"); s.Generation != 1 {
				t.Errorf("b suffered: %+v", s)
			}
			h.sync(wants(map[string]string{"a": "3", "b": "1"}))
			if s := h.status("a"); s.HandOverError != "" {
				t.Errorf("the next one was handed over, and still: %s", s.HandOverError)
			}
			h.Shutdown()
		})
	}
}

// shutDown shuts down while time passes: what hangs is left behind after a time.
func (h *harness) shutDown() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Shutdown()
	}()
	h.stepUntil(time.Second, "it ends", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

func TestAShutdownEndsWhateverAControllerDoes(t *testing.T) {
	for name, misbehave := range misbehaviours(t) {
		for where, install := range map[string]func(i *fakeInstance){
			"handing over": func(i *fakeInstance) { i.onHandOver = misbehave },
			"releasing":    func(i *fakeInstance) { i.onClose = misbehave },
		} {
			t.Run(where+" "+name, func(t *testing.T) {
				h := newHarness(t, "a")
				h.sync(wants(map[string]string{"a": "1"}))
				install(h.instances("a")[0])
				h.shutDown()
			})
		}
	}
}

// Pins MGR-166.
func TestAControllerThatCannotBeBuiltFailsAlone(t *testing.T) {
	for name, misbehave := range misbehaviours(t) {
		for what, state := range map[string]State{"instance": Running, "standby": Standby} {
			t.Run(what+" "+name, func(t *testing.T) {
				h := newHarness(t, "a", "b")
				defer h.shutDown() // it may be tried again by then
				h.builder.onBuild = map[string]func(){"a": misbehave}
				h.builder.onWarm = h.builder.onBuild
				desired := wants(map[string]string{"b": "1"})
				desired["a"] = Want{State: state, Spec: Spec{Planned: plan.Spec{Value: "1"}}}
				failed := make(chan error, 1)
				go func() { failed <- h.Synchronize(desired, CauseStart, false) }()
				var err error
				h.stepUntil(time.Second, "the failure is reported", func() bool {
					select {
					case err = <-failed:
						return true
					default:
						return false
					}
				})
				if err == nil || !strings.Contains(err.Error(), "a: ") {
					t.Errorf("got %v", err)
				}
				h.eventually("a backs off and b runs", func() bool {
					return h.status("a").State == BackingOff && h.status("b").State == Running
				})
			})
		}
	}
}

// What is built too late was given up: nobody will run it.
func TestAnInstanceThatIsBuiltTooLateIsReleased(t *testing.T) {
	h := newHarness(t, "a")
	defer h.shutDown()
	late := make(chan struct{})
	h.builder.onBuild = map[string]func(){"a": func() { <-late }}
	failed := make(chan error, 1)
	go func() { failed <- h.Synchronize(wants(map[string]string{"a": "1"}), CauseConfig, true) }()
	h.stepUntil(time.Second, "it is given up", func() bool { return len(failed) == 1 })
	close(late)
	h.eventually("it is released", func() bool {
		built := h.instances("a")
		if len(built) != 1 {
			return false
		}
		ran, closed := built[0].counts()
		return ran == 0 && closed == 1
	})
}

// A transaction that fails releases what it has built. An event handler of it may hang.
func TestADiscardedInstanceThatHangsHoldsUpNobody(t *testing.T) {
	h := newHarness(t, "a", "b")
	defer h.shutDown()
	hang := make(chan struct{})
	defer close(hang)
	h.builder.onBuild = map[string]func(){"b": func() { h.instances("a")[0].handler = hang }}
	h.builder.refuse["b"] = errEnded
	failed := make(chan error, 1)
	go func() { failed <- h.Synchronize(wants(map[string]string{"a": "1", "b": "1"}), CauseConfig, true) }()
	h.stepUntil(time.Second, "the transaction ends", func() bool { return len(failed) == 1 })
	if s := h.status("a"); s.Abandoned != 1 {
		t.Errorf("%+v", s)
	}
}

func TestLoopsThatPanicAreNotShown(t *testing.T) {
	h := newHarness(t, "a")
	defer h.shutDown()
	h.sync(wants(map[string]string{"a": "1"}))
	i := h.instances("a")[0]
	i.mu.Lock()
	i.loops, i.onLoops = []controller.LoopStatus{{Queue: "q"}}, func() { panic("boom") }
	i.mu.Unlock()
	if s := h.status("a"); s.State != Running || len(s.Loops) != 0 {
		t.Errorf("%+v", s)
	}
}

// A loop that does not answer is as stuck as one that works on a key for too long.
func TestLoopsThatDoNotAnswerAreStuck(t *testing.T) {
	h := newHarness(t, "a", "b")
	defer h.shutDown()
	h.sync(wants(map[string]string{"a": "1", "b": "1"}))
	hang := make(chan struct{})
	defer close(hang)
	i := h.instances("a")[0]
	i.mu.Lock()
	i.onLoops = func() { <-hang }
	i.mu.Unlock()
	of := func(name string) Status { // h.status asks the loops
		u := h.units[name]
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.status
	}
	h.stepUntil(10*time.Second, "a is found to be stuck", func() bool { return strings.Contains(of("a").LastError, "has not returned") })
	// From now on in small steps: building the next instance has a limit of time.
	h.stepUntil(100*time.Millisecond, "a is replaced", func() bool { return of("a").Generation == 2 })
	if s := h.status("a"); s.Restarts[string(causeStuck)] != 1 {
		t.Errorf("%+v", s)
	}
	if of("b").Generation != 1 {
		t.Error("b suffered")
	}
}

func TestAControllerThatCannotShowItself(t *testing.T) {
	for name, misbehave := range misbehaviours(t) {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "a")
			defer h.shutDown()
			h.sync(wants(map[string]string{"a": "1"}))
			page := func() int {
				answer := httptest.NewRecorder()
				h.DebuggingHandler("a").ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
				return answer.Code
			}
			if got := page(); got != http.StatusNotFound {
				t.Errorf("got %d", got)
			}
			h.instances("a")[0].onDebug = misbehave
			codes := make(chan int, 1)
			go func() { codes <- page() }()
			h.stepUntil(time.Second, "it is answered", func() bool { return len(codes) == 1 })
			if got := <-codes; got != http.StatusInternalServerError {
				t.Errorf("got %d", got)
			}
		})
	}
}

// The wall clock may be set while an instance is inspected: it has not been silent for an hour then. Pins MGR-204.
func TestHowLongAnInstanceIsSilentDoesNotFollowTheWallClock(t *testing.T) {
	u := newUnit(t.Context(), controller.Descriptor{Name: "a"}, Options{Clock: clock.RealClock{}, Metrics: NewMetrics(metrics.NewKubeRegistry())})
	r := &running{view: newView(time.Now())}
	inspect(u, r, func() int {
		if began, underWay := r.view.began(); !underWay || !strings.Contains(began.String(), "m=") {
			t.Errorf("the inspection began at %v, want a time with a monotonic reading", began)
		}
		return 0
	})
	if silent := u.unanswered(r); silent != 0 {
		t.Errorf("silent for %v after it has answered", silent)
	}
}
