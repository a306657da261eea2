package csrsigning

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

const (
	serving = "kubernetes.io/kubelet-serving"
	kubelet = "kubernetes.io/kube-apiserver-client-kubelet"
	client  = "kubernetes.io/kube-apiserver-client"
	legacy  = "kubernetes.io/legacy-unknown"
)

// files makes the CA of a test.
func files(t testing.TB) authority.Files {
	certFile, keyFile := pki.CA(t, now).Write(t, t.TempDir())
	return authority.Files{Cert: certFile, Key: keyFile}
}

// one is the configuration with one CA for all signers.
func one(pair authority.Files) config {
	return config{duration: 24 * time.Hour, authorities: [len(profiles)]authority.Files{pair, pair, pair, pair}}
}

// csr makes an approved request for a user's client certificate.
func csr(t testing.TB, edits ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr", UID: "uid", ResourceVersion: "7"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: client,
			Request:    pki.Request(t, pki.Key(t), x509.CertificateRequest{Subject: pkix.Name{CommonName: "mike"}}),
			Usages:     []certificatesv1.KeyUsage{"client auth", "digital signature"},
		},
	}
	has("Approved", "")(r)
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func has(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: status})
	}
}

func undecided(r *certificatesv1.CertificateSigningRequest) { r.Status.Conditions = nil }

func to(name string) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = name }
}

func usages(all ...certificatesv1.KeyUsage) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Usages = all }
}

func request(t testing.TB, template x509.CertificateRequest) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.Request = pki.Request(t, pki.Key(t), template)
	}
}

var node = pkix.Name{CommonName: "system:node:one", Organization: []string{"system:nodes"}}

func start(t testing.TB, cfg config, objects ...runtime.Object) (*controllertest.Env, *signingController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c, err := newController(env.Env, cfg)
	must.Succeed(t, err)
	env.Start(t)
	return env, c
}

// written is the one write, which has to be an update of the status from what is cached.
func written(t testing.TB, env *controllertest.Env) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	writes := env.Writes()
	if len(writes) != 1 || !writes[0].Matches("update", "certificatesigningrequests") || writes[0].GetSubresource() != "status" {
		t.Fatalf("requests: %v", writes)
	}
	r := writes[0].(clienttesting.UpdateActionImpl).Object.(*certificatesv1.CertificateSigningRequest)
	if r.ResourceVersion != "7" || r.UID != "uid" {
		t.Errorf("it is an update of %+v", r.ObjectMeta)
	}
	return r
}
