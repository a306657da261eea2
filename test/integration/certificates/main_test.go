// Package certificates tests the controllers of certificate requests: who approves them, who
// signs them, and who removes them.
package certificates

import (
	"context"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

const (
	signing   = "certificatesigningrequest-signing-controller"
	approving = "certificatesigningrequest-approving-controller"
	account   = "system:serviceaccount:kube-system:certificate-controller"

	serving = certificatesv1.KubeletServingSignerName
	kubelet = certificatesv1.KubeAPIServerClientKubeletSignerName
	client  = certificatesv1.KubeAPIServerClientSignerName
)

var (
	cluster *harness.Cluster
	admin   kubernetes.Interface
)

func TestMain(m *testing.M) {
	shared := harness.Package{
		ControlPlane: controlplane.Options{
			NoServiceAccountAdmission: true,
			APIServerArgs: []string{
				"--feature-gates=PodCertificateRequest=true",
				"--runtime-config=certificates.k8s.io/v1beta1/podcertificaterequests=true",
			},
		},
		Configure: configure,
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

// configure turns on what is tested here, and nothing else. The CA of the cluster signs, but for
// one signer.
func configure(c *manager.Config) {
	harness.Only(enabled)(c)
	ca := c.Controllers.CSRSigning.AllSigners
	c.Controllers.CSRSigning.AllSigners = v1beta1.SigningCA{}
	c.Controllers.CSRSigning.KubeletServing = ca
	c.Controllers.CSRSigning.KubeletClient = ca
	c.Controllers.CSRSigning.KubeAPIServerClient = ca
}

func enabled(c *manager.Config) []**bool {
	return []**bool{&c.Controllers.CSRSigning.Enabled, &c.Controllers.CSRApproving.Enabled, &c.Controllers.CSRCleaner.Enabled}
}

// ask is a request for a certificate.
type ask struct {
	signer  string
	request x509.CertificateRequest
	usages  []certificatesv1.KeyUsage
	seconds *int32
}

// ofNode asks for the client certificate of a node.
func ofNode(name string) ask {
	return ask{kubelet, x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}},
		[]certificatesv1.KeyUsage{"client auth", "digital signature"}, nil}
}

// ofUser asks for the client certificate of a user.
func ofUser(name string) ask {
	return ask{client, x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, []certificatesv1.KeyUsage{"client auth", "digital signature", "key encipherment"}, nil}
}

// create asks for a certificate until the end of the test.
func create(t *testing.T, as kubernetes.Interface, key crypto.Signer, a ask) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := must.Get(as.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: a.signer, Request: pki.Request(t, key, a.request), Usages: a.usages, ExpirationSeconds: a.seconds,
		},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = admin.CertificatesV1().CertificateSigningRequests().Delete(context.Background(), csr.Name, metav1.DeleteOptions{})
	})
	return csr
}

func get(t *testing.T, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return must.Get(admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{}))(t)
}

// decide approves or denies a request, as of a time; now if that is zero.
func decide(t *testing.T, csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType, at metav1.Time) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: at,
	})
	return must.Get(admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}))(t)
}

// issued waits for the certificate of a request, which has to be one.
func issued(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	var csr *certificatesv1.CertificateSigningRequest
	await.That(t, name+" has its certificate", func(context.Context) error {
		if csr = get(t, name); len(csr.Status.Certificate) == 0 {
			return fmt.Errorf("its status is %+v", csr.Status)
		}
		return nil
	})
	return pki.Parse(t, csr.Status.Certificate)
}

// obtain has a request created and approved, and returns its certificate. That for the client
// certificate of a kubelet is approved without being asked to: the administrator may have it.
func obtain(t *testing.T, key crypto.Signer, a ask) *x509.Certificate {
	t.Helper()
	csr := create(t, admin, key, a)
	if a.signer != kubelet {
		decide(t, csr, certificatesv1.CertificateApproved, metav1.Time{})
	}
	return issued(t, csr.Name)
}

// verify verifies that a CA vouches for a certificate.
func verify(t *testing.T, c *x509.Certificate, ca []byte, usage x509.ExtKeyUsage, names ...string) {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatal("no CA")
	}
	_, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
	must.Succeed(t, err)
	for _, name := range names {
		must.Succeed(t, c.VerifyHostname(name))
	}
}

func mark(t *testing.T) controlplane.Mark {
	t.Helper()
	return must.Get(cluster.Audit().Mark())(t)
}
