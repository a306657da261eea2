// Package nodes tests the controllers of nodes and of pods bound to them: ranges of pod
// addresses that nodes get, pods that no node ends, and groups of pods that are started
// together, which are of an alpha API.
//
// Pods of a node that is gone are deleted after 40 seconds, by the clock of the manager, which
// runs fast here: see harness.FastClock.
package nodes

import (
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

var (
	cluster *harness.Cluster
	admin   kubernetes.Interface
)

func TestMain(m *testing.M) {
	shared := harness.Package{
		ControlPlane: controlplane.Options{
			Nodes:                     1,
			NoServiceAccountAdmission: true,
			APIServerArgs: []string{
				"--feature-gates=GenericWorkload=true,WorkloadWithJob=true",
				"--runtime-config=scheduling.k8s.io/v1alpha2=true",
			},
		},
		Configure: configure,
		Runtime:   runtime.Options{Clock: harness.FastClock()},
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

// configure turns on what is tested here, and nothing else.
func configure(c *manager.Config) {
	harness.Only(enabled)(c)
	harness.WithoutLease(c)
	c.FeatureGates = map[string]bool{"GenericWorkload": true, "WorkloadWithJob": true}
	c.Controllers.PodGarbageCollector.TerminatedPodThreshold = ptr.To(int32(2))
	withRanges(c)
	// The nodes have no kubelets whose reports would bring them a new value.
	c.Controllers.TTL.ResyncPeriod = &metav1.Duration{Duration: time.Second}
}

func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.Job.Enabled,
		&c.Controllers.NodeIPAM.Enabled,
		&c.Controllers.PodGarbageCollector.Enabled,
		&c.Controllers.PodGroupProtection.Enabled,
		&c.Controllers.TaintEviction.Enabled,
		&c.Controllers.TTL.Enabled,
	}
}
