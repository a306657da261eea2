// Package failover measures, on the real control plane, how the lease changes hands: how
// long nobody works when a leader stops, dies or is cut off, and that never two work.
//
//  1. Every manager reaches the API server through a network of its own, which a test can
//     cut, and from an address of its own, by which the audit log tells it from others
//     whatever account its controllers act as.
//  2. What happened is read from the audit log: one clock, the API server's, for the
//     history of the lease and for every other write.
//  3. Numbers are logged; run with -v to see them. Variables in the environment make the
//     tests longer, with the same code: see longer.
package failover

import (
	"os"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

const (
	leaseNamespace = metav1.NamespaceSystem
	// thief is a client with all rights that takes a lease by force.
	thief = "lease-thief"
)

// short are the shortest timings that make sense: a lease lasts whole seconds.
var short = election.Timings{LeaseDuration: time.Second, RenewDeadline: 700 * time.Millisecond, RetryPeriod: 100 * time.Millisecond}

// losses is how often the lease is lost in a row.
//
//	KCMD_FAILOVER_LOSSES   how often the lease is lost, default 30
//	KCMD_FAILOVER_DEFAULTS any value: failover is measured with Kubernetes' default timings, too
func losses(t *testing.T) int { return harness.Size(t, "KCMD_FAILOVER_LOSSES", 30) }

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	options := controlplane.Options{
		NoServiceAccountAdmission: true,
		AuditUsers:                []string{thief},
		AuditBodies: []auditv1.GroupResources{
			{Group: coordinationv1.GroupName, Resources: []string{"leases"}},
			{Resources: []string{"pods"}},
		},
		APIServerArgs: []string{
			"--feature-gates=CoordinatedLeaderElection=true",
			"--runtime-config=coordination.k8s.io/v1beta1=true",
		},
	}
	os.Exit(controlplane.RunTests(m, options, func(c *controlplane.ControlPlane) { plane = c }))
}

// markAudit returns the current position in the audit log.
func markAudit(t testing.TB) controlplane.Mark {
	t.Helper()
	mark, err := plane.Audit().Mark()
	must.Succeed(t, err)
	return mark
}

// asThief returns the client that takes leases by force.
func asThief(t testing.TB) kubernetes.Interface {
	t.Helper()
	config, err := plane.Config(thief, "system:masters")
	must.Succeed(t, err)
	client, err := kubernetes.NewForConfig(config)
	must.Succeed(t, err)
	return client
}
