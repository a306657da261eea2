// Package takeover shows, on the real control plane, that a controller that begins does not
// act on caches that are incomplete, or that its predecessor's last writes have not reached.
//
//  1. Every manager reaches the API server through a proxy of its own, which holds up what
//     a test says: the opening of a watch, or its events.
//  2. What was created is counted by a watch of the test's own, not in any cache.
//  3. Variables in the environment make the tests longer, with the same code: see
//     takeovers.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/manager"
)

const (
	// patience bounds every wait, the longest delay of a watch included.
	patience  = time.Minute
	pollEvery = 10 * time.Millisecond
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	options := controlplane.Options{Nodes: 5, Scheduler: true, NoServiceAccountAdmission: true}
	os.Exit(controlplane.RunTests(m, options, func(c *controlplane.ControlPlane) { plane = c }))
}

// takeovers is how many there are in TestTakeovers.
//
//	KCMD_TAKEOVERS  default 4: one of each workload, with a leader that stops
func takeovers(t *testing.T) int {
	t.Helper()
	value := os.Getenv("KCMD_TAKEOVERS")
	if value == "" {
		return 4
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("reading KCMD_TAKEOVERS: %v", err)
	}
	return n
}

// replica is a manager in a process of its own with a proxy of its own.
type replica struct {
	*manager.Process
	proxy *faultproxy.Proxy
}

// join runs a replica until the end of the test.
func join(t *testing.T, lease string) *replica {
	t.Helper()
	p := faultproxy.Start(t, plane)
	return &replica{Process: begin(t, p, lease), proxy: p}
}

func begin(t *testing.T, p *faultproxy.Proxy, lease string) *manager.Process {
	t.Helper()
	kubeconfig, err := p.Kubeconfig(lease, controlplane.ManagerUser)
	must(t, err)
	m, err := manager.BeginProcess(t.Context(), plane, configured(lease, kubeconfig))
	must(t, err)
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Log(err) // it may have been killed
		}
	})
	return m
}

// configured makes a configuration with few controllers and a short lease.
func configured(lease, kubeconfig string) func(*manager.Config) {
	return func(c *manager.Config) {
		c.ClientConnection.Kubeconfig = kubeconfig
		c.LeaderElection.ResourceName = lease
		c.LeaderElection.LeaseDuration = &metav1.Duration{Duration: 4 * time.Second}
		c.LeaderElection.RenewDeadline = &metav1.Duration{Duration: 3 * time.Second}
		c.LeaderElection.RetryPeriod = &metav1.Duration{Duration: 500 * time.Millisecond}
		c.ControllerDefaults.Enabled = ptr.To(false)
		c.Controllers.ReplicaSet.Enabled = ptr.To(true)
		c.Controllers.Deployment.Enabled = ptr.To(true)
		c.Controllers.StatefulSet.Enabled = ptr.To(true)
		c.Controllers.Job.Enabled = ptr.To(true)
	}
}

// leads waits until a replica leads and has told its controllers to run.
func (r *replica) leads(t *testing.T) {
	t.Helper()
	eventually(t, "the replica leads", func(ctx context.Context) error {
		s, err := r.Status(ctx)
		if err != nil {
			return err
		}
		return leading(&s)
	})
}

func leading(s *runtime.Status) error {
	if !s.Leadership.Leading {
		return errors.New("it stands by")
	}
	for _, c := range s.Controllers {
		if c.State != supervisor.Running && c.State != supervisor.Disabled {
			return fmt.Errorf("%s is %s", c.Name, c.State)
		}
	}
	return nil
}

// rolesOf waits until one of two replicas leads and the other one stands by. Which one leads
// can change on a machine that is too busy to renew a lease.
func rolesOf(t *testing.T, a, b *replica) (leader, successor *replica) {
	t.Helper()
	eventually(t, "one replica leads and the other one stands by", func(ctx context.Context) error {
		var all []error
		for _, roles := range [][2]*replica{{a, b}, {b, a}} {
			s, err := roles[0].Status(ctx)
			if err == nil {
				err = errors.Join(leading(&s), roles[1].standsBy(ctx))
			}
			if err == nil {
				leader, successor = roles[0], roles[1]
				return nil
			}
			all = append(all, err)
		}
		return errors.Join(all...)
	})
	return leader, successor
}

// standsBy is nil if a replica stands by with full caches.
func (r *replica) standsBy(ctx context.Context) error {
	s, err := r.Status(ctx)
	if err != nil {
		return err
	}
	if s.Leadership.Leading || len(s.Informers) == 0 {
		return errors.New("it leads, or has no caches")
	}
	for _, i := range s.Informers {
		if !i.Synced {
			return fmt.Errorf("%s is not synced", i.Resource)
		}
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check returns nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, last)
		}
	}
}
