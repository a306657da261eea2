// Package workloads tests the controllers that create pods as a user sees them: on a real API
// server, with a real scheduler and simulated nodes that make pods Ready. The garbage
// collector is off: what a deleted object owned stays until its namespace is deleted. Some
// tests rely on that.
package workloads

import (
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

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
		Configure:    harness.Only(enabled),
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

// enabled is what is tested here: nothing else is on.
func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.ServiceAccount.Enabled,
		&c.Controllers.Namespace.Enabled,
		&c.Controllers.ReplicationController.Enabled,
		&c.Controllers.ReplicaSet.Enabled,
		&c.Controllers.DaemonSet.Enabled,
		&c.Controllers.Deployment.Enabled,
		&c.Controllers.Job.Enabled,
		&c.Controllers.CronJob.Enabled,
		&c.Controllers.TTLAfterFinished.Enabled,
		&c.Controllers.StatefulSet.Enabled,
	}
}
