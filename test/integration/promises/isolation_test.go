package promises

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// faults are the ways in which a controller can fail.
func faults() []struct {
	name    string
	way     func(controller.Env) (controller.Controller, error)
	says    string
	inBuild bool // it fails before anything of it runs
} {
	return []struct {
		name    string
		way     func(controller.Env) (controller.Controller, error)
		says    string
		inBuild bool
	}{
		{"New fails", failsToBuild, errFake.Error(), true},
		{"New panics", panicsWhenBuilt, errFake.Error(), true},
		{"Run fails", failsWhenRun, errFake.Error(), false},
		{"Run panics", panicsWhenRun, errFake.Error(), false},
		{"a goroutine panics", panicsBeside, errFake.Error(), false},
		{"Run returns", returnsEarly, "returned without being stopped", false},
		{"handler panics", panicsInHandler, errFake.Error(), false},
	}
}

// Promise 9: a controller that panics, fails to start or hangs is isolated, backed off and
// reported; the others run on.
// Pins MGR-166.
func TestFailingControllerIsIsolated(t *testing.T) {
	for _, fault := range faults() {
		t.Run(fault.name, func(t *testing.T) {
			fake := &faulty{way: fault.way}
			fake.broken.Store(true)
			m := begin(t, runtime.Options{
				Descriptors: withFake(fake.build),
				Supervision: supervisor.Options{BackoffMin: time.Second, BackoffMax: time.Second},
			}, nil)
			harness.Wait(t, m, "the failing controller backs off and the others run", func(s *runtime.Status) error {
				c := harness.ControllerOf(s, deployment)
				if c.State != supervisor.BackingOff || !strings.Contains(c.LastError, fault.says) || c.LastErrorTime.IsZero() {
					return fmt.Errorf("it is %s: %s %s", c.State, c.Reason, c.LastError)
				}
				return othersRun(s)
			})
			others := harness.Instances(harness.Status(t, m))
			delete(others, deployment)
			wantCode(t, m, "/healthz/"+deployment, http.StatusInternalServerError)
			wantCode(t, m, "/readyz", http.StatusInternalServerError)
			wantCode(t, m, "/healthz/"+replicaSet, http.StatusOK)
			wantCode(t, m, "/livez", http.StatusOK) // a restart would not help
			controllersWork(t)

			fake.broken.Store(false)
			waitRunning(t, m)
			wantCode(t, m, "/healthz/"+deployment, http.StatusOK)
			wantCode(t, m, "/readyz", http.StatusOK)
			now := harness.Instances(harness.Status(t, m))
			delete(now, deployment)
			harness.SameInstances(t, others, now)
		})
	}
}

// othersRun is nil if every enabled controller but the fake runs. One that is disabled for no reason is not
// told yet what to do.
func othersRun(s *runtime.Status) error {
	for _, c := range s.Controllers {
		told := !c.Pending && (c.State != supervisor.Disabled || c.Reason != "")
		done := told && slices.Contains([]supervisor.State{supervisor.Running, supervisor.Idle, supervisor.Disabled}, c.State)
		if c.Name != deployment && !done {
			return fmt.Errorf("%s is %s: %s", c.Name, c.State, c.Reason)
		}
	}
	return nil
}

// What cannot be built is a reason to reject an edit, and nothing of the attempt is left.
func TestEditIsRejectedIfAControllerCannotBeBuilt(t *testing.T) {
	for _, fault := range faults() {
		if !fault.inBuild {
			continue
		}
		t.Run(fault.name, func(t *testing.T) {
			fake := &faulty{way: fault.way}
			m := begin(t, runtime.Options{Descriptors: withFake(fake.build)}, func(c *manager.Config) {
				harness.Settle(time.Millisecond)(c)
				// It asks for informers while it runs, so they come and go with no edit.
				c.Controllers.GarbageCollector.Enabled = ptr.To(false)
			})
			waitRunning(t, m)
			settled(t, m)
			before := harness.Status(t, m)
			fake.broken.Store(true)
			// Both restart: what was built for the other one has to be thrown away.
			err := m.Edit(t.Context(), func(c *manager.Config) {
				workers(7)(c)
				*c.Controllers.ReplicaSet.ConcurrentSyncs = 7
			})
			if err == nil || !strings.Contains(err.Error(), deployment) || !strings.Contains(err.Error(), fault.says) {
				t.Errorf("the edit gives %v, want the failure of %s", err, deployment)
			}
			harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)))
			if got, want := handlersOf(harness.Status(t, m)), handlersOf(before); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("informers are\n%v\nbefore\n%v", got, want)
			}
			fake.broken.Store(false)
			harness.Edit(t, m, workers(8))
			waitRunning(t, m)
			harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)), deployment, replicaSet)
		})
	}
}

// A standby builds what it would run; a controller that cannot be built must not end it.
func TestStandbySurvivesAControllerThatCannotBeBuilt(t *testing.T) {
	leader := start(t, nil)
	for _, fault := range faults() {
		if !fault.inBuild {
			continue
		}
		t.Run(fault.name, func(t *testing.T) {
			fake := &faulty{way: fault.way}
			fake.broken.Store(true)
			standby := begin(t, runtime.Options{Descriptors: withFake(fake.build)}, func(c *manager.Config) {
				name, _, _ := strings.Cut(t.Name(), "/")
				c.LeaderElection.ResourceName = strings.ToLower(name)
			})
			harness.Wait(t, standby, "the others stand by", func(s *runtime.Status) error {
				if c := harness.ControllerOf(s, deployment); c.State != supervisor.BackingOff || !strings.Contains(c.LastError, fault.says) {
					return fmt.Errorf("the fake is %s: %s", c.State, c.LastError)
				}
				if c := harness.ControllerOf(s, replicaSet); c.State != supervisor.Standby {
					return fmt.Errorf("%s is %s", c.Name, c.State)
				}
				return nil
			})
		})
	}
	waitRunning(t, leader)
}

// hanging is a controller whose first instance does not stop, and writes when it is told to.
type hanging struct {
	runs   atomic.Int64
	write  chan struct{}
	wrote  chan error
	resume chan struct{}
}

func (h *hanging) build(env controller.Env, _ fakeValue) (controller.Controller, error) {
	return runFunc(func(ctx context.Context) error {
		if h.runs.Add(1) > 1 {
			return idle(ctx)
		}
		<-h.write
		h.wrote <- writeSomething(env)
		<-h.resume
		return nil
	}), nil
}

func writeSomething(env controller.Env) error {
	_, err := env.Client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(context.Background(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "written-too-late-"},
	}, metav1.CreateOptions{})
	return err
}

func TestHangingControllerIsLeftBehindFenced(t *testing.T) {
	h := &hanging{write: make(chan struct{}), wrote: make(chan error), resume: make(chan struct{})}
	allow(t)
	m := begin(t, runtime.Options{Descriptors: withFake(h.build)}, func(c *manager.Config) {
		harness.Settle(time.Millisecond)(c)
		c.Reload.DrainTimeout = duration(100 * time.Millisecond)
	})
	t.Cleanup(func() { close(h.resume) }) // runs before the manager is stopped
	waitRunning(t, m)
	before := harness.Status(t, m)
	harness.Edit(t, m, workers(7))
	harness.Wait(t, m, "the successor runs", func(s *runtime.Status) error {
		if c := harness.ControllerOf(s, deployment); c.State != supervisor.Running || c.Abandoned != 1 {
			return fmt.Errorf("it is %s, %d abandoned", c.State, c.Abandoned)
		}
		return nil
	})
	h.write <- struct{}{}
	if err := <-h.wrote; !errors.Is(err, clients.ErrFenced) {
		t.Errorf("a write of the abandoned instance gives %v, want %v", err, clients.ErrFenced)
	}
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)), deployment)
	wantCode(t, m, "/healthz/"+deployment, http.StatusOK)
	if n := series(t, m)[`kcmd_controller_abandoned_instances_total{name="`+deployment+`"}`]; n != 1 {
		t.Errorf("the metric counts %v abandoned instances, want 1", n)
	}
	controllersWork(t)
}

// A controller need not check any field of its Env.
func TestNoFieldOfTheEnvIsNil(t *testing.T) {
	allow(t)
	m := begin(t, runtime.Options{Descriptors: withFake(func(env controller.Env, _ fakeValue) (controller.Controller, error) {
		if missing := controllertest.NilFields(env); len(missing) != 0 {
			return nil, fmt.Errorf("nil: %q", missing)
		}
		return runFunc(idle), nil
	})}, nil)
	waitRunning(t, m)
}

// unwilling is a controller that misbehaves when it is asked for something.
type unwilling struct {
	env       controller.Env
	misbehave func()
}

func (u unwilling) Run(ctx context.Context) error {
	controller.TakeOver(u.env, u)
	return idle(ctx)
}

func (u unwilling) HandOver() any {
	u.misbehave()
	return nil
}

func (u unwilling) DebuggingHandler() http.Handler {
	u.misbehave()
	return nil
}

// A controller that does not hand over holds up neither its successor nor the end of the
// process, and the lease is given back.
func TestAControllerThatDoesNotHandOverHoldsUpNothing(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for name, misbehave := range map[string]func(){
		"panics": func() { panic(errFake) },
		"hangs":  func() { <-hang },
	} {
		t.Run(name, func(t *testing.T) {
			allow(t)
			m := begin(t, runtime.Options{Descriptors: withFake(func(env controller.Env, _ fakeValue) (controller.Controller, error) {
				return unwilling{env, misbehave}, nil
			})}, harness.Settle(time.Millisecond))
			waitRunning(t, m)
			before := harness.Status(t, m)
			harness.Edit(t, m, workers(7))
			harness.Wait(t, m, "the successor runs", func(s *runtime.Status) error {
				if c := harness.ControllerOf(s, deployment); c.State != supervisor.Running || c.Generation != 2 || c.HandOverError == "" {
					return fmt.Errorf("it is %s, generation %d, %q", c.State, c.Generation, c.HandOverError)
				}
				return nil
			})
			harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)), deployment)
			if n := series(t, m)[`kcmd_controller_hand_over_failures_total{name="`+deployment+`"}`]; n != 1 {
				t.Errorf("the metric counts %v, want 1", n)
			}
			wantCode(t, m, "/livez", http.StatusOK)
			must.Succeed(t, m.Stop())
			if got := holder(t, harness.LeaseOf(t)); got != "" {
				t.Errorf("the lease is held by %q", got)
			}
		})
	}
}

// A page of a controller that panics costs the request, and nothing else.
func TestAPageOfAControllerThatPanics(t *testing.T) {
	allow(t)
	m := begin(t, runtime.Options{Descriptors: withFake(func(env controller.Env, _ fakeValue) (controller.Controller, error) {
		return unwilling{env, func() { panic(errFake) }}, nil
	})}, nil)
	waitRunning(t, m)
	before := harness.Instances(harness.Status(t, m))
	wantCode(t, m, "/debug/controllers/"+deployment+"/", http.StatusInternalServerError)
	wantCode(t, m, "/livez", http.StatusOK)
	harness.SameInstances(t, before, harness.Instances(harness.Status(t, m)))
}
