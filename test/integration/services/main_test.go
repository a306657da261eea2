// Package services tests the controllers of Services: those that say where their pods are, and the
// one that guards the ranges of their addresses.
package services

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
		ControlPlane: controlplane.Options{Nodes: nodes, Scheduler: true, APIServerArgs: []string{"--service-cluster-ip-range=10.0.0.0/16,fd00:10::/112"}},
		Configure:    harness.Only(enabled),
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

// enabled is what is tested here: nothing else is on.
func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.ServiceAccount.Enabled,
		&c.Controllers.Namespace.Enabled,
		&c.Controllers.ReplicaSet.Enabled,
		&c.Controllers.Endpoints.Enabled,
		&c.Controllers.EndpointSlice.Enabled,
		&c.Controllers.EndpointSliceMirroring.Enabled,
		&c.Controllers.ServiceCIDR.Enabled,
	}
}
