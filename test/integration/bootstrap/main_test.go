// Package bootstrap lets a real kubelet join the cluster by TLS bootstrap, as kubeadm join does
// it: with nothing but the address of the API server and a bootstrap token.
package bootstrap

import (
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

func TestMain(m *testing.M) {
	shared := harness.Package{
		ControlPlane: controlplane.Options{AuditUsers: []string{nodeUser}},
		Configure:    harness.Only(enabled),
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.BootstrapSigner.Enabled,
		&c.Controllers.TokenCleaner.Enabled,
		&c.Controllers.CSRApproving.Enabled,
		&c.Controllers.CSRSigning.Enabled,
		&c.Controllers.CSRCleaner.Enabled,
		&c.Controllers.ServiceAccount.Enabled,
	}
}
