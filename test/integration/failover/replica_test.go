package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// working is the controller whose writes are looked at.
const working = "replicaset-controller"

// subject is a manager in this process or in one of its own.
type subject interface {
	Status(context.Context) (runtime.Status, error)
	Edit(context.Context, func(*manager.Config)) error
	Stop() error
}

// replica is one of several managers that contend for a lease.
type replica struct {
	subject
	name    string // also its identity in the lease, see processOf
	network *controlplane.Proxy
	process *manager.Process // nil for one in this process
}

// setting is what replicas have in common.
type setting struct {
	lease   string
	timings election.Timings
	edit    func(*manager.Config) // optional
}

// configure makes the configuration of one replica: few controllers, so that a change of
// the leader costs little.
func (s setting) configure(name, kubeconfig string) func(*manager.Config) {
	return func(c *manager.Config) {
		c.ClientConnection.Kubeconfig = kubeconfig
		c.LeaderElection.ResourceName = s.lease
		c.LeaderElection.Identity = name
		setTimings(c, s.timings)
		harness.Settle(time.Millisecond)(c)
		c.ControllerDefaults.Enabled = ptr.To(false)
		c.Controllers.ReplicaSet.Enabled = ptr.To(true)
		c.Controllers.Deployment.Enabled = ptr.To(true)
		c.Controllers.EndpointSlice.Enabled = ptr.To(true)
		c.Controllers.ServiceAccount.Enabled = ptr.To(true)
		if s.edit != nil {
			s.edit(c)
		}
	}
}

func setTimings(c *manager.Config, t election.Timings) {
	harness.Lease(t.LeaseDuration, t.RenewDeadline, t.RetryPeriod)(c)
}

// connect makes the network of a replica and the kubeconfig that leads through it.
func connect(t testing.TB, name string) (network *controlplane.Proxy, kubeconfig string) {
	t.Helper()
	network, err := plane.NewProxy()
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig, err = network.Kubeconfig(name, controlplane.ManagerUser)
	must.Succeed(t, err)
	return network, kubeconfig
}

// join runs a replica in this process until the end of the test.
func (s setting) join(t testing.TB, name string) *replica {
	t.Helper()
	network, kubeconfig := connect(t, name)
	m, err := manager.Begin(t.Context(), plane, runtime.Options{}, s.configure(name, kubeconfig))
	must.Succeed(t, err)
	return s.keep(t, &replica{subject: m, name: name, network: network})
}

// joinProcess runs a replica in a process of its own until the end of the test.
func (s setting) joinProcess(t testing.TB, name string) *replica {
	t.Helper()
	network, kubeconfig := connect(t, name)
	m, err := manager.BeginProcess(t.Context(), plane, s.configure(name, kubeconfig))
	must.Succeed(t, err)
	return s.keep(t, &replica{subject: m, name: name, network: network, process: m})
}

func (s setting) keep(t testing.TB, r *replica) *replica {
	t.Cleanup(func() {
		r.network.Heal()
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *replica) leadership(t testing.TB) runtime.LeadershipStatus {
	t.Helper()
	return must.Get(r.Status(t.Context()))(t).Leadership
}

// leads waits until a replica leads and its controllers work.
func (r *replica) leads(t testing.TB) {
	t.Helper()
	await.That(t, r.name+" leads", r.works)
}

// works is nil if a replica leads and its controllers work.
func (r *replica) works(ctx context.Context) error {
	s, err := r.Status(ctx)
	if err != nil {
		return err
	}
	if !s.Leadership.Leading {
		return fmt.Errorf("%s stands by", r.name)
	}
	for _, c := range s.Controllers {
		if c.Name == working && c.State == supervisor.Running {
			return nil
		}
	}
	return fmt.Errorf("the %s of %s does not run", working, r.name)
}

// standsBy waits until a replica stands by with its caches filled.
func (r *replica) standsBy(t testing.TB) {
	t.Helper()
	await.That(t, r.name+" stands by with warm caches", func(ctx context.Context) error {
		s, err := r.Status(ctx)
		if err != nil {
			return err
		}
		return harness.StandsBy(&s)
	})
}

// leader waits until one of the replicas leads and works.
func leader(t testing.TB, replicas ...*replica) *replica {
	t.Helper()
	var found *replica
	await.That(t, "one of them leads", func(ctx context.Context) error {
		var all []error
		for _, r := range replicas {
			err := r.works(ctx)
			if err == nil {
				found = r
				return nil
			}
			all = append(all, err)
		}
		return errors.Join(all...)
	})
	return found
}

// processOf is the name of the process that an identity was configured for: a random part
// follows it.
func processOf(identity string) string {
	name, _, _ := strings.Cut(identity, "_")
	return name
}
