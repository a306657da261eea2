// Package devices tests the controllers of devices: claims that are generated for pods, reserved
// for them and released, taints of devices, and reports on pools. Devices are published as a
// driver would, by ResourceSlices; a scheduler allocates them, kwok runs the pods. A variable in the environment
// makes a test larger, with the same code:
//
//	KCMD_DEVICE_SLICES  slices of 100 devices with a pod each that a rule taints, default 2
package devices

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
var gates = map[string]bool{
	"DRADeviceTaintRules":       true,
	"DRAResourcePoolStatus":     true,
	"DRAWorkloadResourceClaims": true,
	"GenericWorkload":           true,
}

func TestMain(m *testing.M) {
	shared := harness.Package{
		ControlPlane: controlplane.Options{
			Nodes:                     1,
			Scheduler:                 true,
			NoServiceAccountAdmission: true,
			APIServerArgs: []string{
				"--feature-gates=DRADeviceTaintRules=true,DRAResourcePoolStatus=true,DRAWorkloadResourceClaims=true,GenericWorkload=true",
				"--runtime-config=resource.k8s.io/v1alpha3=true,resource.k8s.io/v1beta2=true,scheduling.k8s.io/v1alpha2=true",
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
		&c.Controllers.PodGroupProtection.Enabled,
		&c.Controllers.ResourceClaim.Enabled,
		&c.Controllers.DeviceTaintEviction.Enabled,
		&c.Controllers.ResourcePoolStatusRequest.Enabled,
	}
}
