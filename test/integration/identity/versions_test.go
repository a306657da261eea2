package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// A controller that can use one of two versions of an API waits for one of them, and changes
// over when a better one is served. Pins CTB-10 and CTB-31.
func TestAControllerFollowsTheVersionThatIsServed(t *testing.T) {
	const (
		publisher = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
		user      = "system:serviceaccount:kube-system:kube-apiserver-serving-clustertrustbundle-publisher"
		gate      = "--feature-gates=ClusterTrustBundle=true"
		alpha     = "--runtime-config=certificates.k8s.io/v1alpha1/clustertrustbundles=true"
		missing   = "the API server does not serve clustertrustbundles in certificates.k8s.io/v1beta1"
		both      = alpha + ",certificates.k8s.io/v1beta1/clustertrustbundles=true"
	)
	t.Cleanup(func() { restartWith(t) })
	m := begin(t, runtime.Options{}, func(c *manager.Config) {
		c.LeaderElection.LeaseDuration = &metav1.Duration{Duration: 90 * time.Second}
		c.LeaderElection.RenewDeadline = &metav1.Duration{Duration: time.Minute}
		c.FeatureGates = map[string]bool{"ClusterTrustBundle": true}
		c.ControllerDefaults.Enabled = ptr.To(false)
		c.Controllers.ClusterTrustBundlePublisher.Enabled = ptr.To(true)
	})
	is := func(what string, state supervisor.State, generation uint64) {
		t.Helper()
		harness.Wait(t, m, what, func(s *runtime.Status) error {
			if c := harness.ControllerOf(s, publisher); c.State != state || c.Generation != generation || state == supervisor.Waiting && c.Reason != missing {
				return fmt.Errorf("it is %s, instance %d: %s", c.State, c.Generation, c.Reason)
			}
			return nil
		})
	}
	is("it waits", supervisor.Waiting, 0)
	wrote := func(from controlplane.Mark, version string) {
		t.Helper()
		await.That(t, "it writes in "+version, func(context.Context) error {
			events, err := plane.Audit().Since(from, controlplane.ByUser(user), controlplane.Writes())
			for _, e := range events {
				if !strings.HasPrefix(e.RequestURI, "/apis/certificates.k8s.io/"+version+"/clustertrustbundles") {
					return fmt.Errorf("it sent %s %s", e.Verb, e.RequestURI)
				}
			}
			if err == nil && len(events) == 0 {
				err = errors.New("it has written nothing")
			}
			return err
		})
	}
	from := mark(t)
	restartWith(t, gate, alpha)
	is("the alpha version is used", supervisor.Running, 1)
	wrote(from, "v1alpha1")

	restartWith(t, gate, both)
	is("it changes over to the beta version", supervisor.Running, 2)
	from = mark(t)
	bundles := plane.AdminClient().CertificatesV1beta1().ClusterTrustBundles()
	must.Succeed(t, bundles.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	wrote(from, "v1beta1")
	restartWith(t)
	is("it waits again", supervisor.Waiting, 2)
}
