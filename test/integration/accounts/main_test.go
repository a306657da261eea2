// Package accounts tests the controllers of identities, of what vouches for them and of what
// they may do: service accounts, their tokens, the bundle of certificates that pods trust,
// roles.
package accounts

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
		ControlPlane: controlplane.Options{APIServerArgs: []string{
			"--feature-gates=ClusterTrustBundle=true",
			"--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true",
		}},
		Configure: harness.All(harness.Only(enabled), func(c *manager.Config) {
			c.FeatureGates = map[string]bool{"ClusterTrustBundle": true}
		}),
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

// enabled is what is tested here: nothing else is on.
func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.ServiceAccount.Enabled,
		&c.Controllers.ServiceAccountToken.Enabled,
		&c.Controllers.RootCACertificatePublisher.Enabled,
		&c.Controllers.Namespace.Enabled,
		&c.Controllers.ClusterRoleAggregation.Enabled,
		&c.Controllers.BootstrapSigner.Enabled,
		&c.Controllers.TokenCleaner.Enabled,
		&c.Controllers.ClusterTrustBundlePublisher.Enabled,
		&c.Controllers.LegacyServiceAccountTokenCleaner.Enabled,
	}
}
