// Package garbage tests the controllers that delete what nobody needs any more: dependents
// without owners, and all that is in a namespace.
//
// Kinds that come and go are noticed every half minute, by the clock of the manager, which
// runs fast here: see harness.FastClock.
package garbage

import (
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

// nodes is one for each zone that the control plane spreads nodes over.
const nodes = 3

var (
	cluster *harness.Cluster
	admin   kubernetes.Interface
)

func TestMain(m *testing.M) {
	shared := harness.Package{
		ControlPlane: controlplane.Options{Nodes: nodes, Scheduler: true},
		Configure:    configure,
		Runtime:      runtime.Options{Clock: harness.FastClock()},
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

// configure turns on what is tested here, what creates dependents, and nothing else.
func configure(c *manager.Config) {
	harness.Only(enabled)(c)
	harness.WithoutLease(c)
}

func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.ServiceAccount.Enabled,
		&c.Controllers.RootCACertificatePublisher.Enabled,
		&c.Controllers.Namespace.Enabled,
		&c.Controllers.GarbageCollector.Enabled,
		&c.Controllers.ReplicationController.Enabled,
		&c.Controllers.ReplicaSet.Enabled,
		&c.Controllers.Deployment.Enabled,
	}
}
