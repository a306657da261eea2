package harness

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// Replica is a manager with a proxy of its own, of those that compete for the lease of a test.
type Replica struct {
	*manager.Manager
	*faultproxy.Proxy
}

// Behind runs a replica until the end of the test.
func Behind(t testing.TB, plane *controlplane.ControlPlane, edit func(*manager.Config)) Replica {
	t.Helper()
	proxy := faultproxy.Start(t, plane)
	m := manager.Join(t, plane, kcmruntime.Options{}, All(edit, OwnLease(t), ShortLease, Through(t, proxy)))
	return Replica{m, proxy}
}

// Behind is the function of the same name where the tests of a package share a manager, which has
// to Rest.
func (c *Cluster) Behind(t testing.TB, edit func(*manager.Config)) Replica {
	t.Helper()
	return Behind(t, c.ControlPlane, edit)
}

// Through has a manager reach the API server through a proxy.
func Through(t testing.TB, proxy *faultproxy.Proxy) func(*manager.Config) {
	t.Helper()
	kubeconfig := must.Get(proxy.Kubeconfig("manager", controlplane.ManagerUser))(t)
	return func(c *manager.Config) { c.ClientConnection.Kubeconfig = kubeconfig }
}

// ShortLease has a successor take over within seconds.
func ShortLease(c *manager.Config) {
	Lease(4*time.Second, 3*time.Second, 500*time.Millisecond)(c)
}

// Works waits until the controllers of a replica work.
func (r Replica) Works(t testing.TB) {
	t.Helper()
	Wait(t, r.Manager, "the controllers work", func(s *kcmruntime.Status) error {
		if !s.Leadership.Leading {
			return errors.New("it does not lead")
		}
		if len(Instances(*s)) == 0 {
			return errors.New("no controller runs")
		}
		if err := CarriedOut(s); err != nil {
			return err
		}
		return LoopsBegan(s)
	})
}

// Restart stops a controller of a replica, calls meanwhile, and starts it again.
func (r Replica) Restart(t testing.TB, controller func(*manager.Config) **bool, meanwhile func()) {
	t.Helper()
	Edit(t, r.Manager, func(c *manager.Config) { *controller(c) = ptr.To(false) })
	meanwhile()
	Edit(t, r.Manager, func(c *manager.Config) { *controller(c) = ptr.To(true) })
	r.Works(t)
}

// Asked waits until a replica has sent requests, in addition to those counted before.
func (r Replica) Asked(t testing.TB, requests faultproxy.Requests, before int) {
	t.Helper()
	await.That(t, "it has sent the request", func(context.Context) error {
		if n := r.Seen(requests); n <= before {
			return fmt.Errorf("%d were sent", n)
		}
		return nil
	})
}
