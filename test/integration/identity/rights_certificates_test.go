package identity

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

// ofOne tells the controllers apart that share a service account, by what only one of them does.
var ofOne = map[string]string{
	"certificatesigningrequest-signing-controller":   "update status",
	"certificatesigningrequest-approving-controller": "update approval",
	"certificatesigningrequest-cleaner-controller":   "delete ",
	"cloud-node-controller":                          "update ",
	"cloud-node-lifecycle-controller":                "delete ",
	"node-ipam-controller":                           "patch ", // as node-lifecycle-controller: see wantRanges
	"node-lifecycle-controller":                      "update status",
	"taint-eviction-controller":                      "delete ",
}

// createRequests is for the controllers that approve and sign certificates. It asks for that of
// a kubelet, which the administrator may have.
func (w *workload) createRequests() {
	w.t.Helper()
	w.request("kubelet-of-"+w.namespace, certificatesv1.KubeAPIServerClientKubeletSignerName,
		pkix.Name{CommonName: "system:node:" + w.namespace, Organization: []string{"system:nodes"}})
}

// createExpired is for the controller that deletes requests for certificates.
func (w *workload) createExpired() {
	w.t.Helper()
	ctx, requests := w.t.Context(), w.client.CertificatesV1().CertificateSigningRequests()
	csr := w.request("expired-of-"+w.namespace, "example.com/identity", pkix.Name{CommonName: "somebody"})
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True", Reason: "Test"}}
	csr = must.Get(requests.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}))(w.t)
	csr.Status.Certificate = pki.CA(w.t, time.Now().AddDate(-3, 0, 0)).Cert
	made(w.t)(requests.UpdateStatus(ctx, csr, metav1.UpdateOptions{}))
}

func (w *workload) request(name, signer string, subject pkix.Name) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	requests := w.client.CertificatesV1().CertificateSigningRequests()
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: meta(name)}
	csr.Spec = certificatesv1.CertificateSigningRequestSpec{
		SignerName: signer,
		Request:    pki.Request(w.t, pki.Key(w.t), x509.CertificateRequest{Subject: subject}),
		Usages:     []certificatesv1.KeyUsage{"client auth", "digital signature"},
	}
	w.t.Cleanup(func() { _ = requests.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return must.Get(requests.Create(w.t.Context(), csr, metav1.CreateOptions{}))(w.t)
}
