// Package takeover shows, on the real control plane, that a controller that begins does not
// act on caches that are incomplete, or that its predecessor's last writes have not reached,
// and what controllers conclude while their caches lack objects that another process has just
// made, or that came and went while a watch was interrupted.
//
//  1. Every manager reaches the API server through a proxy of its own, which holds up what
//     a test says: the opening of a watch, or its events. The test itself does not.
//  2. What was created is counted by a watch of the test's own, not in any cache.
//  3. Variables in the environment make the tests longer, with the same code: see
//     takeovers.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	options := controlplane.Options{Nodes: 5, Scheduler: true, NoServiceAccountAdmission: true}
	os.Exit(controlplane.RunTests(m, options, func(c *controlplane.ControlPlane) { plane = c }))
}

// takeovers is how many there are in TestTakeovers.
//
//	KCMD_TAKEOVERS  default 8: of each workload one with a leader that stops, and one with a
//	                leader that is killed
func takeovers(t *testing.T) int { return harness.Size(t, "KCMD_TAKEOVERS", 8) }

// replica is a manager in a process of its own with a proxy of its own.
type replica struct {
	*manager.Process
	proxy *faultproxy.Proxy
}

// join runs a replica until the end of the test.
func join(t *testing.T, lease string, edits ...func(*manager.Config)) *replica {
	t.Helper()
	p := faultproxy.Start(t, plane)
	return &replica{Process: begin(t, p, lease, edits...), proxy: p}
}

func begin(t *testing.T, p *faultproxy.Proxy, lease string, edits ...func(*manager.Config)) *manager.Process {
	t.Helper()
	own := func(c *manager.Config) { c.LeaderElection.ResourceName = lease }
	return manager.JoinProcess(t, plane, harness.All(own, harness.ShortLease, harness.Through(t, p), workloadsOnly, harness.All(edits...)))
}

// workloadsOnly enables the controllers of what TestTakeovers begins.
func workloadsOnly(c *manager.Config) {
	c.ControllerDefaults.Enabled = ptr.To(false)
	c.Controllers.ReplicaSet.Enabled = ptr.To(true)
	c.Controllers.Deployment.Enabled = ptr.To(true)
	c.Controllers.StatefulSet.Enabled = ptr.To(true)
	c.Controllers.Job.Enabled = ptr.To(true)
}

// leads waits until a replica leads and has told its controllers to run.
func (r *replica) leads(t *testing.T) {
	t.Helper()
	await.That(t, "the replica leads", func(ctx context.Context) error {
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
	await.That(t, "one replica leads and the other one stands by", func(ctx context.Context) error {
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
	return harness.StandsBy(&s)
}
