package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/manager"
)

var trustBundles = certificatesv1beta1.SchemeGroupVersion.WithResource("clustertrustbundles")

const servingSigner = "kubernetes.io/kube-apiserver-serving"

// otherCA is the PEM text of the certificate of a CA that nobody uses, the same in every run.
var otherCA = sync.OnceValues(func() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "other"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return "", fmt.Errorf("making a certificate: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
})

// TrustBundle creates a bundle with the other CA, of a signer or of none.
func TrustBundle(name, signer string) Action {
	return func(ctx context.Context, w *world) error {
		ca, err := otherCA()
		if err != nil {
			return err
		}
		_, err = w.admin.CertificatesV1beta1().ClusterTrustBundles().Create(ctx, &certificatesv1beta1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: ca},
		}, metav1.CreateOptions{})
		return err
	}
}

// servingBundles returns the bundles of the API server's signer.
func servingBundles(ctx context.Context, w *world) ([]unstructured.Unstructured, error) {
	list, err := w.client.Resource(trustBundles).List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + servingSigner})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// eachServingBundle does something with each of them.
func eachServingBundle(do func(context.Context, *world, string) error) Action {
	return func(ctx context.Context, w *world) error {
		all, err := servingBundles(ctx, w)
		if err != nil {
			return err
		}
		for i := range all {
			if err := do(ctx, w, all[i].GetName()); err != nil {
				return err
			}
		}
		return nil
	}
}

// bundlePublished is that there is one, with the CA of the API server.
func bundlePublished(ctx context.Context, w *world) error {
	all, err := servingBundles(ctx, w)
	if err != nil {
		return err
	}
	other, err := otherCA()
	if err != nil {
		return err
	}
	var names []string
	for i := range all {
		names = append(names, all[i].GetName())
	}
	if len(all) != 1 {
		return fmt.Errorf("the signer has the bundles %q", names)
	}
	bundle, _, err := unstructured.NestedString(all[0].Object, "spec", "trustBundle")
	if err == nil && (strings.TrimSpace(bundle) == strings.TrimSpace(other) || slices.Contains(names, servingBundleName("extra"))) {
		err = fmt.Errorf("the bundle %q has the wrong certificate", names)
	}
	return err
}

func servingBundleName(name string) string {
	return strings.ReplaceAll(servingSigner, "/", ":") + ":" + name
}

func trustBundlePublisher() Scenario {
	change := func(ctx context.Context, w *world, name string) error {
		other, err := otherCA()
		if err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"trustBundle": other}})
		if err != nil {
			return fmt.Errorf("encoding a patch: %w", err)
		}
		_, err = w.client.Resource(trustBundles).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	remove := func(ctx context.Context, w *world, name string) error {
		return w.client.Resource(trustBundles).Delete(ctx, name, metav1.DeleteOptions{})
	}
	published := []Condition{bundlePublished}
	return Scenario{
		Name:        "clustertrustbundle-publisher",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ClusterTrustBundlePublisher.Enabled} },
		Configure:   func(c *manager.Config) { c.FeatureGates = map[string]bool{"ClusterTrustBundle": true} },
		Kinds:       []schema.GroupVersionResource{trustBundles},
		Steps: []Step{
			{"create bundles of others", []Action{TrustBundle("faults-without-signer", ""), TrustBundle("example.com:signer:other", "example.com/signer")}, published},
			{"create another one of the signer", []Action{TrustBundle(servingBundleName("extra"), servingSigner)}, published},
			{"change the bundle", []Action{eachServingBundle(change)}, published},
			{"delete it", []Action{eachServingBundle(remove)}, published},
			{
				"change it, and create two others of the signer",
				[]Action{eachServingBundle(change), TrustBundle(servingBundleName("extra"), servingSigner), TrustBundle(servingBundleName("more"), servingSigner)},
				published,
			},
		},
	}
}
