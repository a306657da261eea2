package supervisor

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/controller"
)

type harness struct {
	*testing.T
	*Supervisor
	builder *fakeBuilder
	clock   *clocktesting.FakeClock
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
