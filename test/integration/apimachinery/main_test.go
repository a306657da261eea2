// Package apimachinery tests the controllers of how the API server stores objects: which API
// servers have recorded a storage version, and the migration of what is stored in another one.
package apimachinery

import (
	"maps"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

var (
	cluster *harness.Cluster
	admin   kubernetes.Interface
)

// gates are switched on in the API server and the manager.
var gates = map[string]bool{"StorageVersionAPI": true, "StorageVersionMigrator": true}

func TestMain(m *testing.M) {
	shared := harness.Package{
		ControlPlane: controlplane.Options{
			NoServiceAccountAdmission: true,
			APIServerArgs: []string{
				"--feature-gates=StorageVersionAPI=true,StorageVersionMigrator=true",
				"--runtime-config=internal.apiserver.k8s.io/v1alpha1=true,storagemigration.k8s.io/v1beta1=true",
			},
		},
		Configure: configure,
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

// configure turns on what is tested here, and nothing else.
func configure(c *manager.Config) {
	harness.Only(enabled)(c)
	harness.WithoutLease(c)
	c.FeatureGates = maps.Clone(gates)
}

func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.GarbageCollector.Enabled,
		&c.Controllers.StorageVersionGarbageCollector.Enabled,
		&c.Controllers.StorageVersionMigrator.Enabled,
	}
}
