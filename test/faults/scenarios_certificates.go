package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var certificateRequests = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")

// requests are those that were made.
var requests = struct {
	sync.Mutex
	bySubject map[string][]byte
}{bySubject: map[string][]byte{}}

// requestFor returns the PEM text of a request for a subject, of which every run has the same.
func requestFor(subject pkix.Name) ([]byte, error) {
	requests.Lock()
	defer requests.Unlock()
	if made, ok := requests.bySubject[subject.String()]; ok {
		return made, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	made := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	requests.bySubject[subject.String()] = made
	return made, nil
}

// Ask asks a signer for a client certificate.
func Ask(name, signer string, subject pkix.Name) Action {
	return func(ctx context.Context, w *world) error {
		request, err := requestFor(subject)
		if err != nil {
			return err
		}
		_, err = w.admin.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: request, SignerName: signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
			},
		}, metav1.CreateOptions{})
		return err
	}
}

// Decide approves or denies a request.
func Decide(name, decision string) Action {
	return PatchPart("certificatesigningrequests", name,
		`{"status":{"conditions":[{"type":"`+decision+`","status":"True","reason":"Decided","message":"by a scenario"}]}}`, "approval")
}

func certificates() Scenario {
	node := pkix.Name{CommonName: "system:node:faults", Organization: []string{"system:nodes"}}
	user := pkix.Name{CommonName: "faults"}
	// is is that a request has a condition, and a certificate or none.
	is := func(name, condition string, issued bool) Condition {
		return func(ctx context.Context, w *world) error {
			csr, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := len(csr.Status.Certificate) > 0; got != issued {
				return fmt.Errorf("whether %s has a certificate is %v", name, got)
			}
			return Has("certificatesigningrequests", name, "{.status.conditions[*].type}", condition)(ctx, w)
		}
	}
	return Scenario{
		Name: "certificatesigningrequest",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.CSRApproving.Enabled, &c.Controllers.CSRSigning.Enabled, &c.Controllers.CSRCleaner.Enabled}
		},
		Kinds: []schema.GroupVersionResource{certificateRequests},
		Steps: []Step{
			{
				"ask for certificates",
				[]Action{
					Ask("of-node", certificatesv1.KubeAPIServerClientKubeletSignerName, node),
					Ask("of-user", certificatesv1.KubeAPIServerClientSignerName, user), Ask("denied", certificatesv1.KubeAPIServerClientSignerName, user),
				},
				[]Condition{is("of-node", "Approved", true), is("of-user", "", false), is("denied", "", false)},
			},
			{
				"decide",
				[]Action{Decide("of-user", "Approved"), Decide("denied", "Denied")},
				[]Condition{is("of-user", "Approved", true), is("denied", "Denied", false)},
			},
			{
				"ask again under the name",
				[]Action{Delete("certificatesigningrequests", "of-node", metav1.DeletePropagationBackground), Ask("of-node", certificatesv1.KubeAPIServerClientKubeletSignerName, node)},
				[]Condition{is("of-node", "Approved", true)},
			},
			{
				"ask for what is not signed",
				[]Action{Ask("elsewhere", "example.com/signer", user), Decide("elsewhere", "Approved")},
				[]Condition{is("elsewhere", "Approved", false)},
			},
		},
	}
}
