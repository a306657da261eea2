package runtime

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/loop"
	"kcmd.dev/pkg/runtime/pausing"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
)

// slow builds instances whose inspection takes as long as the test wants.
type slow struct {
	looked chan struct{}
	answer chan struct{}
}

func (s slow) Build(controller.Descriptor, supervisor.Spec, func(error)) (supervisor.Instance, error) {
	return s, nil
}

func (slow) Warm(controller.Descriptor, supervisor.Spec) (func(), error) { return func() {}, nil }

func (slow) Run(ctx context.Context, _ any) error {
	<-ctx.Done()
	return nil
}

func (s slow) Loops() []controller.LoopStatus {
	close(s.looked)
	<-s.answer
	return nil
}

func (slow) Keys(func(string) bool) []controller.LoopKey { return nil }

func (slow) HandOver() (any, bool)          { return nil, false }
func (slow) Fence(error)                    {}
func (slow) Close()                         {}
func (slow) SetResync(time.Duration)        {}
func (slow) DebuggingHandler() http.Handler { return nil }

// Whoever looks at the status holds up neither the liveness probe nor a reload, however much
// there is to look at.
func TestLookingAtTheStatusHoldsUpNobody(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	s := slow{looked: make(chan struct{}), answer: make(chan struct{})}
	r := &Runtime{options: Options{Clock: clk}, watchdog: loop.NewWatchdog(clk), leadership: leadership.New(leadership.Options{}),
		pauses: pausing.New(metrics.NewKubeRegistry(), clk), breaker: breaker.New(breaker.Options{Clock: clk})}
	r.supervisor = supervisor.New(ctx, supervisor.Options{Builder: s, Clock: clk, Metrics: supervisor.NewMetrics(metrics.NewKubeRegistry())},
		[]controller.Descriptor{{Name: "a"}})
	if _, err := r.supervisor.Synchronize(map[string]supervisor.Want{"a": {State: supervisor.Running}}, supervisor.CauseStart); err != nil {
		t.Fatal(err)
	}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		err := await.Nil(t.Context(), time.Minute, func(context.Context) error {
			if r.Status().Controllers[0].Generation == 0 {
				return errors.New("no instance is shown")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}()
	<-s.looked
	live := make(chan error, 1)
	go func() { live <- r.progress() }()
	select {
	case err := <-live:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the liveness probe waits for the status")
	}
	close(s.answer)
	<-shown
	r.supervisor.Shutdown()
}
