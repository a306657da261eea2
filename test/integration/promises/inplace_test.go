package promises

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/ports"
)

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// inPlace is an edit that must not restart anything, and how its effect shows.
type inPlace struct {
	name   string
	edit   func(*manager.Config)
	effect func(t *testing.T, p *manager.Process)
}

func inPlaceEdits() []inPlace {
	return []inPlace{
		{"lease timings", func(c *manager.Config) {
			c.LeaderElection.LeaseDuration = duration(9 * time.Second)
			c.LeaderElection.RenewDeadline = duration(5 * time.Second)
			c.LeaderElection.RetryPeriod = duration(200 * time.Millisecond)
		}, leaseLasts(9)},
		{"lease timings back", func(c *manager.Config) {
			c.LeaderElection.LeaseDuration = duration(15 * time.Second)
			c.LeaderElection.RenewDeadline = duration(10 * time.Second)
			c.LeaderElection.RetryPeriod = duration(500 * time.Millisecond)
		}, leaseLasts(15)},
		{"client limits", func(c *manager.Config) {
			c.ClientConnection.QPS, c.ClientConnection.Burst = ptr.To[float32](50), ptr.To[int32](100)
		}, works},
		{"no client limits", func(c *manager.Config) {
			c.ClientConnection.QPS, c.ClientConnection.Burst = ptr.To[float32](0), ptr.To[int32](0)
		}, works},
		{"verbosity", func(c *manager.Config) { c.Logging.Verbosity = 4 }, logs("\"Configuration reloaded\"")},
		{"format", func(c *manager.Config) { c.Logging.Format = "json" }, logs(`"msg":"Configuration reloaded"`)},
		{"resync of all", func(c *manager.Config) { c.Resync.MinPeriod = duration(time.Second) }, resyncs(deployment, rootCA)},
		{"resync of one", func(c *manager.Config) {
			c.Resync.MinPeriod = duration(0)
			c.Controllers.RootCACertificatePublisher.ResyncPeriod = duration(time.Second)
		}, resyncs(rootCA)},
		{"reload timings", func(c *manager.Config) {
			c.Reload.PollInterval, c.Reload.DrainTimeout, c.Reload.SettleTime = duration(time.Second), duration(3*time.Second), duration(10*time.Millisecond)
		}, works},
		{"profiling off", func(c *manager.Config) { c.Serving.Profiling = ptr.To(false) }, answers("/debug/pprof/", http.StatusNotFound)},
		{"profiling on", func(c *manager.Config) { c.Serving.Profiling = ptr.To(true) }, answers("/debug/pprof/", http.StatusOK)},
	}
}

// Promise 6: lease timings, client limits, log level and resync change without restarting
// any controller or giving up the lease.
func TestInPlace(t *testing.T) {
	namespace := plane.Namespace(t)
	p := manager.StartProcess(t, plane, ownLease(t, func(c *manager.Config) { harness.Settle(10 * time.Millisecond)(c) }))
	createDeployment(t, namespace)
	before, held := harness.Status(t, p), lease(t, harness.LeaseOf(t)).Spec
	for _, change := range inPlaceEdits() {
		ok := t.Run(change.name, func(t *testing.T) {
			harness.Edit(t, p, change.edit)
			change.effect(t, p)
			harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, p)))
		})
		if !ok {
			break // what follows would fail for the same reason
		}
	}
	sameLease(t, held, lease(t, harness.LeaseOf(t)).Spec)
}

// sameLease fails if a lease was given up meanwhile.
func sameLease(t *testing.T, before, after coordinationv1.LeaseSpec) {
	t.Helper()
	switch {
	case ptr.Deref(after.HolderIdentity, "") != ptr.Deref(before.HolderIdentity, ""):
		t.Errorf("the holder was %q and is %q", *before.HolderIdentity, ptr.Deref(after.HolderIdentity, ""))
	case !after.AcquireTime.Equal(before.AcquireTime):
		t.Errorf("the lease was acquired at %v, before at %v", after.AcquireTime, before.AcquireTime)
	case ptr.Deref(after.LeaseTransitions, 0) != ptr.Deref(before.LeaseTransitions, 0):
		t.Errorf("%d transitions, before %d", ptr.Deref(after.LeaseTransitions, 0), ptr.Deref(before.LeaseTransitions, 0))
	}
}

// leaseLasts waits for a renewal with the new duration.
func leaseLasts(seconds int32) func(*testing.T, *manager.Process) {
	return func(t *testing.T, _ *manager.Process) {
		name, _, _ := strings.Cut(t.Name(), "/")
		await.That(t, "the lease has the new duration", func(context.Context) error {
			if is := ptr.Deref(lease(t, strings.ToLower(name)).Spec.LeaseDurationSeconds, 0); is != seconds {
				return fmt.Errorf("it lasts %d s", is)
			}
			return nil
		})
	}
}

// works is the least effect: the manager does its work.
func works(t *testing.T, _ *manager.Process) { controllersWork(t) }

// logs waits for text in the log.
func logs(text string) func(*testing.T, *manager.Process) {
	return func(t *testing.T, p *manager.Process) {
		await.That(t, "the log has changed", func(context.Context) error {
			data, err := os.ReadFile(p.LogFile())
			if err == nil && !strings.Contains(string(data), text) {
				err = errors.New("it has not")
			}
			return err
		})
	}
}

// resyncs waits until controllers have looked at objects nothing happened to.
func resyncs(names ...string) func(*testing.T, *manager.Process) {
	return func(t *testing.T, p *manager.Process) {
		first := harness.Status(t, p)
		for _, name := range names {
			harness.Wait(t, p, name+" resyncs twice", func(s *runtime.Status) error {
				was, is := reconciled(harness.ControllerOf(&first, name).Loops), reconciled(harness.ControllerOf(s, name).Loops)
				if is < was+2 {
					return fmt.Errorf("%d reconciles, before %d", is, was)
				}
				return nil
			})
		}
	}
}

func answers(path string, want int) func(*testing.T, *manager.Process) {
	return func(t *testing.T, p *manager.Process) {
		await.That(t, "the endpoint answers as configured", func(context.Context) error {
			got, err := code(t, p.Client(), p.URL()+path, nil)
			if err == nil && got != want {
				err = fmt.Errorf("%s answers %d, want %d", path, got, want)
			}
			return err
		})
	}
}

func TestServingPortChangesInPlace(t *testing.T) {
	m := start(t, func(c *manager.Config) { harness.Settle(10 * time.Millisecond)(c) })
	before, held := harness.Status(t, m), lease(t, harness.LeaseOf(t)).Spec
	old := m.URL() + "/healthz"
	if got, err := code(t, m.Client(), old, nil); err != nil || got != http.StatusOK {
		t.Fatalf("the old port answers %d, %v", got, err)
	}
	port := ports.FreeFor(t)
	harness.Edit(t, m, func(c *manager.Config) { c.Serving.Port = ptr.To(port) })
	m.Client().CloseIdleConnections()
	accepts := func() { // the CA of clients is read from the cluster when the port is open, and until then none is trusted
		t.Helper()
		await.That(t, "the new port accepts the client", func(context.Context) error {
			got, err := code(t, m.Client(), fmt.Sprintf("https://127.0.0.1:%d/healthz", port), nil)
			if err == nil && got != http.StatusOK {
				err = fmt.Errorf("it answers %d", got)
			}
			return err
		})
	}
	accepts()
	if got, err := code(t, m.Client(), old, nil); err == nil {
		t.Errorf("the old port still answers %d", got)
	}

	// Off and on again.
	harness.Edit(t, m, func(c *manager.Config) { c.Serving.Port = ptr.To[int32](0) })
	m.Client().CloseIdleConnections()
	if got, err := code(t, m.Client(), fmt.Sprintf("https://127.0.0.1:%d/healthz", port), nil); err == nil {
		t.Errorf("the port answers %d although serving is off", got)
	}
	harness.Edit(t, m, func(c *manager.Config) { c.Serving.Port = ptr.To(port) })
	accepts()
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)))
	sameLease(t, held, lease(t, harness.LeaseOf(t)).Spec)
}
