// Package policy tests the controllers of what users lay down: disruption budgets, autoscaling,
// quotas and admission policies.
package policy

import (
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		Configure:    configure,
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

// configure turns on what is tested here, what creates pods, and nothing else.
func configure(c *manager.Config) {
	harness.Only(enabled)(c)
	// As often as the configuration permits: every test of autoscaling waits for it.
	c.Controllers.HorizontalPodAutoscaler.SyncPeriod = &metav1.Duration{Duration: time.Second}
	// Never: what tests see of a quota is caused by an event.
	c.Controllers.ResourceQuota.SyncPeriod = &metav1.Duration{Duration: time.Hour}
}

func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.ServiceAccount.Enabled,
		&c.Controllers.Namespace.Enabled,
		&c.Controllers.ReplicationController.Enabled,
		&c.Controllers.ReplicaSet.Enabled,
		&c.Controllers.Deployment.Enabled,
		&c.Controllers.Job.Enabled,
		&c.Controllers.StatefulSet.Enabled,
		&c.Controllers.HorizontalPodAutoscaler.Enabled,
		&c.Controllers.Disruption.Enabled,
		&c.Controllers.ResourceQuota.Enabled,
		&c.Controllers.ValidatingAdmissionPolicyStatus.Enabled,
	}
}
