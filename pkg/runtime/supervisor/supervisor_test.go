package supervisor

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
)

// fakeBuilder makes fake instances and remembers them.
type fakeBuilder struct {
	mu       sync.Mutex
	built    []*fakeInstance
	warm     int
	refuse   map[string]error
	onBuild  map[string]func() // called first
	onWarm   map[string]func()
	running  map[string]int // by controller, to see two at once
	overlaps int
}

// fakeInstance is an instance whose end the test decides.
type fakeInstance struct {
	builder *fakeBuilder
	name    string
	spec    Spec
	failed  func(error)
	ended   chan error // what Run returns without being asked
	hangs   chan struct{}
	onRun   func()
	handler chan struct{} // Close waits for it, as for an event handler

	// What the controller does when it is called, instead of answering.
	onHandOver, onLoops, onClose, onDebug func()

	mu          sync.Mutex
	leaves      any // what it hands over, if not its value
	ran, closed int
	fenced      error
	predecessor any
	resync      time.Duration
	loops       []controller.LoopStatus
	keys        []controller.LoopKey
}

func (b *fakeBuilder) Build(d controller.Descriptor, spec Spec, failed func(error)) (Instance, error) {
	if b.onBuild[d.Name] != nil {
		b.onBuild[d.Name]()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refuse[d.Name]; err != nil {
		return nil, err
	}
	if spec.Planned.Value == "idle" {
		return nil, nil
	}
	i := &fakeInstance{builder: b, name: d.Name, spec: spec, failed: failed, ended: make(chan error, 1)}
	b.built = append(b.built, i)
	return i, nil
}

func (b *fakeBuilder) Warm(d controller.Descriptor, _ Spec) (func(), error) {
	if b.onWarm[d.Name] != nil {
		b.onWarm[d.Name]()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refuse[d.Name]; err != nil {
		return nil, err
	}
	b.warm++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.warm--
	}, nil
}

func (b *fakeBuilder) count(name string, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running[name] += by
	if b.running[name] > 1 {
		b.overlaps++
	}
}

func (i *fakeInstance) Run(ctx context.Context, predecessor any) error {
	i.mu.Lock()
	i.ran++
	i.predecessor = predecessor
	i.mu.Unlock()
	i.builder.count(i.name, 1)
	defer i.builder.count(i.name, -1)
	if i.onRun != nil {
		i.onRun()
	}
	select {
	case err := <-i.ended:
		return err
	case <-ctx.Done():
	}
	i.mu.Lock()
	hangs := i.hangs
	i.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return nil
}

// hang makes Run go on after its context ended, until the channel is closed.
func (i *fakeInstance) hang() chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hangs = make(chan struct{})
	return i.hangs
}

func (i *fakeInstance) counts() (ran, closed int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ran, i.closed
}

func (i *fakeInstance) HandOver() any {
	if i.onHandOver != nil {
		i.onHandOver()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.leaves != nil {
		return i.leaves
	}
	return "from " + i.spec.Planned.Value.(string)
}

func (i *fakeInstance) Fence(cause error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fenced == nil {
		i.fenced = cause
	}
}

func (i *fakeInstance) DebuggingHandler() http.Handler {
	if i.onDebug != nil {
		i.onDebug()
	}
	return http.NotFoundHandler()
}

func (i *fakeInstance) Close() {
	i.mu.Lock()
	i.closed++
	handler := i.handler
	i.mu.Unlock()
	if handler != nil {
		<-handler
	}
	if i.onClose != nil {
		i.onClose()
	}
}

func (i *fakeInstance) SetResync(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.resync = d
}

func (i *fakeInstance) Keys(wanted func(string) bool) []controller.LoopKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(i.keys), func(k controller.LoopKey) bool { return !wanted(k.Key) })
}

func (i *fakeInstance) Loops() []controller.LoopStatus {
	i.mu.Lock()
	loops, onLoops := i.loops, i.onLoops
	i.mu.Unlock()
	if onLoops != nil {
		onLoops()
	}
	return loops
}

type harness struct {
	*testing.T
	*Supervisor
	builder *fakeBuilder
	clock   *clocktesting.FakeClock
}

// Synchronize is that of the Supervisor, or both of its phases as a transaction.
func (h *harness) Synchronize(desired map[string]Want, cause Cause, transactional bool) error {
	if !transactional {
		_, err := h.Supervisor.Synchronize(desired, cause)
		return err
	}
	prepared, err := h.Prepare(desired, cause)
	if err != nil {
		prepared.Discard()
		return err
	}
	prepared.Halt()
	prepared.Commit()
	return nil
}

func newHarness(t *testing.T, names ...string) *harness {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	h := &harness{
		T:       t,
		builder: &fakeBuilder{refuse: map[string]error{}, running: map[string]int{}},
		clock:   clocktesting.NewFakeClock(time.Now()),
	}
	var descriptors []controller.Descriptor
	for _, name := range names {
		descriptors = append(descriptors, controller.Descriptor{Name: name})
	}
	h.Supervisor = New(ctx, Options{
		Builder: h.builder,
		Metrics: NewMetrics(metrics.NewKubeRegistry()),
		Clock:   h.clock,
	}, descriptors)
	return h
}

// wants makes a desired state in which each controller runs with a value.
func wants(values map[string]string) map[string]Want {
	all := map[string]Want{}
	for name, value := range values {
		all[name] = Want{State: Running, Spec: spec(value, 0)}
	}
	return all
}

func (h *harness) sync(desired map[string]Want) {
	h.Helper()
	if err := h.Synchronize(desired, CauseConfig, true); err != nil {
		h.Fatal(err)
	}
	h.settle()
}

func (h *harness) settle() {
	h.Helper()
	h.eventually("every controller has done what was asked of it", func() bool {
		return !slices.ContainsFunc(h.Status(), func(s Status) bool { return s.Pending })
	})
}

func (h *harness) status(name string) Status {
	for _, s := range h.Status() {
		if s.Name == name {
			return s
		}
	}
	h.Fatalf("no status of %s", name)
	return Status{}
}

func (h *harness) eventually(what string, condition func() bool) {
	h.Helper()
	h.poll(time.Millisecond, what, condition)
}

func (h *harness) poll(interval time.Duration, what string, condition func() bool) {
	h.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), interval, time.Minute, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		h.Fatalf("not so: %s; status %+v", what, h.Status())
	}
}

// stepUntil moves the clock until a condition holds, slowly enough for what happens at one time to happen before the
// next: what the supervisor gives a controller is a few steps.
func (h *harness) stepUntil(d time.Duration, what string, condition func() bool) {
	h.Helper()
	h.poll(5*time.Millisecond, what, func() bool {
		if condition() {
			return true
		}
		h.clock.Step(d)
		return false
	})
}

func (h *harness) instances(name string) []*fakeInstance {
	h.builder.mu.Lock()
	defer h.builder.mu.Unlock()
	var all []*fakeInstance
	for _, i := range h.builder.built {
		if i.name == name {
			all = append(all, i)
		}
	}
	return all
}

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
