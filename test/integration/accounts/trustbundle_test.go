package accounts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	servingSigner  = "kubernetes.io/kube-apiserver-serving"
	bundlePrefix   = "kubernetes.io:kube-apiserver-serving:"
	bundlesOfOurs  = "spec.signerName=" + servingSigner
	trustPublisher = "kube-apiserver-serving-clustertrustbundle-publisher"
)

func trustBundle(name, signer, content string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: content},
	}
}

// trustBundleName is the name under which a bundle is published.
func trustBundleName(content string) string {
	return fmt.Sprintf("%s%x", bundlePrefix, sha256.Sum256([]byte(content)))[:len(bundlePrefix)+24]
}

// waitForTrustBundle waits until the signer has just this bundle.
func waitForTrustBundle(t *testing.T, what, content string) {
	t.Helper()
	await.That(t, what, func(ctx context.Context) error {
		list, err := admin.CertificatesV1beta1().ClusterTrustBundles().List(ctx, metav1.ListOptions{FieldSelector: bundlesOfOurs})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Name != trustBundleName(content) || list.Items[0].Spec.TrustBundle != content {
			return fmt.Errorf("there are %v", list.Items)
		}
		return nil
	})
}

// Pins CTB-7, CTB-8, CTB-9, CTB-10, CTB-12, CTB-23, CTB-25, CTB-27 and CTB-28.
func TestTheTrustBundleIsPublishedAndRepaired(t *testing.T) {
	t.Parallel()
	bundles := admin.CertificatesV1beta1().ClusterTrustBundles()
	right := bundle(t)
	waitForTrustBundle(t, "the bundle is published", right)
	from := must.Get(cluster.Audit().Mark())(t)
	foreign := must.Get(bundles.Create(t.Context(), trustBundle("kcmd-without-signer", "", right), metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = bundles.Delete(context.Background(), foreign.Name, metav1.DeleteOptions{}) })

	must.Get(bundles.Create(t.Context(), trustBundle(bundlePrefix+"testname", servingSigner, right), metav1.CreateOptions{}))(t)
	waitForTrustBundle(t, "another one of the signer is deleted", right)
	other := string(must.Get(os.ReadFile(cluster.RequestHeaderCAFile()))(t))
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/trustBundle","value":%q}]`, other)
	must.Get(bundles.Patch(t.Context(), trustBundleName(right), types.JSONPatchType, patch, metav1.PatchOptions{}))(t)
	waitForTrustBundle(t, "a change is undone", right)
	must.Succeed(t, bundles.Delete(t.Context(), trustBundleName(right), metav1.DeleteOptions{}))
	waitForTrustBundle(t, "it is there again", right)

	if now := must.Get(bundles.Get(t.Context(), foreign.Name, metav1.GetOptions{}))(t); now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("a bundle without signer is now %+v", now)
	}
	want := []string{
		"delete clustertrustbundles/" + bundlePrefix + "testname 200",
		"update clustertrustbundles/" + trustBundleName(right) + " 200",
		"create clustertrustbundles/" + trustBundleName(right) + " 201",
	}
	if got := written(t, from, trustPublisher); !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
	page := string(must.Get(cluster.Manager.Get(t.Context(), "/metrics"))(t))
	for _, series := range []string{`clustertrustbundle_publisher_sync_total{code="200"}`, `clustertrustbundle_publisher_sync_duration_seconds_count{code="200"}`, `workqueue_adds_total{name="ca_cert_publisher_cluster_trust_bundles"}`} {
		if !strings.Contains(page, series) {
			t.Errorf("the metrics lack %s", series)
		}
	}
}

// Whoever reads what the signer trusts never finds nothing while the file changes. The test
// is not parallel: it edits the manager's configuration. Pins CTB-16, CTB-29 and CTB-33.
func TestTheTrustBundleFollowsTheFile(t *testing.T) {
	original := bundle(t)
	waitForTrustBundle(t, "the bundle is published", original)
	list := must.Get(admin.CertificatesV1beta1().ClusterTrustBundles().List(t.Context(), metav1.ListOptions{FieldSelector: bundlesOfOurs}))(t)
	w, err := admin.CertificatesV1beta1().ClusterTrustBundles().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: bundlesOfOurs})
	count := len(list.Items)
	harness.Follow(t, w, err, func(e watch.EventType, _ *certificatesv1beta1.ClusterTrustBundle) error {
		switch e {
		case watch.Added:
			count++
		case watch.Deleted:
			count--
		}
		if count == 0 {
			return errors.New("the signer has no bundle")
		}
		return nil
	})
	file := filepath.Join(cluster.Dir(), "trusted-ca.crt")
	two := original + string(must.Get(os.ReadFile(cluster.RequestHeaderCAFile()))(t))
	writeFile(t, file, []byte(two))
	before := cluster.Manager.Config().ServiceAccounts.RootCAFile
	harness.Edit(t, cluster.Manager, func(c *manager.Config) { c.ServiceAccounts.RootCAFile = file })
	waitForTrustBundle(t, "the bundle of another file is published", two)
	writeFile(t, file, []byte("no certificate"))
	writeFile(t, file, []byte(original))
	waitForTrustBundle(t, "the file is followed", original)
	harness.Edit(t, cluster.Manager, func(c *manager.Config) { c.ServiceAccounts.RootCAFile = before })
	waitForTrustBundle(t, "the bundle stays", original)
}
