package supervisor

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// Controllers are built one after the other, in the order in which they are described. Pins MGR-70.
func TestControllersAreBuiltInTheirOrder(t *testing.T) {
	names := []string{"tokens", "c", "a", "b"}
	for _, transactional := range []bool{true, false} {
		h := newHarness(t, names...)
		var mu sync.Mutex
		var built []string
		var building atomic.Int32
		h.builder.onBuild = map[string]func(){}
		desired := map[string]string{}
		for _, name := range names {
			desired[name] = "1"
			h.builder.onBuild[name] = func() {
				if building.Add(1) > 1 {
					t.Errorf("%s is built while another is", name)
				}
				for range 100 {
					runtime.Gosched() // another could begin
				}
				mu.Lock()
				built = append(built, name)
				mu.Unlock()
				building.Add(-1)
			}
		}
		if err := h.Synchronize(wants(desired), CauseStart, transactional); err != nil {
			t.Fatal(err)
		}
		h.settle()
		h.Shutdown()
		if !slices.Equal(built, names) {
			t.Errorf("built in the order %q, want %q", built, names)
		}
	}
}

// telling builds instances that write a line to the log.
type telling struct{ fakeBuilder }

func (b *telling) Build(d controller.Descriptor, spec Spec, failed func(error)) (Instance, error) {
	i, err := b.fakeBuilder.Build(d, spec, failed)
	return teller{i}, err
}

type teller struct{ Instance }

func (i teller) Run(ctx context.Context, predecessor any) error {
	klog.FromContext(ctx).Info("At work")
	return i.Instance.Run(ctx, predecessor)
}

// A controller writes to the log under its name. Pins MGR-70.
func TestTheLogNamesControllers(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	b := &telling{fakeBuilder{refuse: map[string]error{}, running: map[string]int{}}}
	s := New(klog.NewContext(t.Context(), logger), Options{Builder: b, Metrics: NewMetrics(metrics.NewKubeRegistry()), Clock: clock.RealClock{}},
		[]controller.Descriptor{{Name: "job-controller"}})
	if _, err := s.Synchronize(wants(map[string]string{"job-controller": "1"}), CauseStart); err != nil {
		t.Fatal(err)
	}
	h := &harness{T: t, Supervisor: s}
	h.settle()
	h.eventually("it runs", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.running["job-controller"] > 0 })
	s.Shutdown()
	if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(log, "job-controller: At work") {
		t.Errorf("the log is\n%s", log)
	}
}

// Being built first is no head start: all controllers are at work at the same time. Pins MGR-72.
func TestControllersRunAtTheSameTime(t *testing.T) {
	h := newHarness(t, "a", "b", "c")
	defer h.Shutdown()
	h.sync(wants(map[string]string{"a": "1", "b": "1", "c": "1"})) // none of them returns
	h.eventually("all are at work", func() bool {
		h.builder.mu.Lock()
		defer h.builder.mu.Unlock()
		return h.builder.running["a"]+h.builder.running["b"]+h.builder.running["c"] == 3
	})
}

// A process that stops waits for its controllers, but not for ever. Pins MGR-197.
func TestAShutdownWaitsForTheDrainTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		set  *time.Duration
		wait time.Duration
	}{
		"by default": {wait: 10 * time.Second},
		"as set":     {set: new(time.Minute), wait: time.Minute},
		"not at all": {set: new(time.Duration(0))},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "a", "b")
			if c.set != nil {
				h.SetDrainTimeout(*c.set)
			}
			h.sync(wants(map[string]string{"a": "1", "b": "1"}))
			i := h.instances("a")[0]
			h.eventually("it is at work", func() bool { ran, _ := i.counts(); return ran == 1 })
			end := i.hang()
			defer close(end)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.Shutdown()
			}()
			h.eventually("only one has not stopped", func() bool { return h.status("b").State == Disabled && h.status("a").State == Stopping })
			fenced := func() bool {
				i.mu.Lock()
				defer i.mu.Unlock()
				return i.fenced != nil
			}
			// Two waiters are the tickers of a and b, as a fake one does not stop, and one is the time for which what b
			// has handed over is kept.
			h.eventually("the wait for a has begun", func() bool { return h.clock.Waiters() >= 4 })
			began := h.clock.Now()
			h.stepUntil(max(c.wait/10, time.Millisecond), "its writes are refused", fenced)
			if waited := h.clock.Since(began); waited < c.wait || waited > 5*c.wait+time.Second {
				t.Errorf("they are refused after %v, want %v", waited, c.wait)
			}
			h.stepUntil(fencedGrace, "the shutdown ends", func() bool {
				select {
				case <-ended:
					return true
				default:
					return false
				}
			})
			if s := h.status("a"); s.Abandoned != 1 {
				t.Errorf("a: %+v", s)
			}
		})
	}
}
