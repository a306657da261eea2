package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

// Every certificate is verified, and lasts as long as asked for.
// Pins CSRS-16, CSRS-24, CSRS-26, CSRS-27 and CSRS-48.
func TestCertificatesOfEachSigner(t *testing.T) {
	t.Parallel()
	ca := must.Get(os.ReadFile(cluster.RootCAFile()))(t)
	server := ofNode("server")
	server.signer, server.usages = serving, []certificatesv1.KeyUsage{"server auth", "digital signature", "key encipherment"}
	server.request.DNSNames, server.request.IPAddresses = []string{"node.example.org"}, []net.IP{net.IPv4(10, 1, 2, 3)}
	short, long := ofNode("client"), ofUser("long")
	short.seconds, long.seconds = ptr.To[int32](1800), ptr.To[int32](3600*24*365*5)
	for name, tc := range map[string]struct {
		ask   ask
		usage x509.KeyUsage
		extra x509.ExtKeyUsage
		lasts time.Duration
		names []string
	}{
		"CSRS-26, CSRS-37: the server of a kubelet": {server, x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, x509.ExtKeyUsageServerAuth,
			365 * 24 * time.Hour, []string{"node.example.org", "10.1.2.3"}},
		"CSRS-27, CSRS-31: the client of a kubelet, for half an hour": {short, x509.KeyUsageDigitalSignature, x509.ExtKeyUsageClientAuth, 35 * time.Minute, nil},
		"CSRS-28, CSRS-31: a user, for too long":                      {long, x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, x509.ExtKeyUsageClientAuth, 365 * 24 * time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := pki.Key(t)
			c := obtain(t, key, tc.ask)
			verify(t, c, ca, tc.extra, tc.names...)
			if c.KeyUsage != tc.usage || !slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{tc.extra}) || c.IsCA || !key.PublicKey.Equal(c.PublicKey) {
				t.Errorf("usage %b %v, CA %v", c.KeyUsage, c.ExtKeyUsage, c.IsCA)
			}
			if got := c.NotAfter.Sub(c.NotBefore); got > tc.lasts || got < min(tc.lasts, 364*24*time.Hour) {
				t.Errorf("it lasts %v, want %v", got, tc.lasts) // the CA of the test ends within a year
			}
			if c.Subject.CommonName != tc.ask.request.Subject.CommonName || !slices.Equal(c.Subject.Organization, tc.ask.request.Subject.Organization) {
				t.Errorf("subject %v", c.Subject)
			}
		})
	}
}

// The API server takes whoever has the certificate for whom it names.
// Pins CSRS-15, CSRS-47 and CSRS-54.
func TestACertificateAuthenticates(t *testing.T) {
	t.Parallel()
	before, key := mark(t), pki.Key(t)
	a := ofUser("certificates-jane")
	a.seconds = ptr.To[int32](3600)
	csr := create(t, admin, key, a)
	decide(t, csr, certificatesv1.CertificateApproved, metav1.Time{})
	c := issued(t, csr.Name)
	if got := c.NotAfter.Sub(c.NotBefore); got > time.Hour+5*time.Minute {
		t.Errorf("it lasts %v", got)
	}
	config := &rest.Config{Host: cluster.URL(), TLSClientConfig: rest.TLSClientConfig{
		CAFile:   cluster.RootCAFile(),
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}),
		KeyData:  pki.KeyPEM(t, key),
	}}
	jane := must.Get(kubernetes.NewForConfig(config))(t)
	review := must.Get(jane.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))(t)
	if review.Status.UserInfo.Username != "certificates-jane" {
		t.Errorf("it is %+v", review.Status.UserInfo)
	}
	if got := requestsAbout(t, before, csr.Name); !slices.Equal(got, []string{"update status"}) {
		t.Errorf("requests: %v", got)
	}
}

// requestsAbout are those of the account of the controllers about a CertificateSigningRequest.
func requestsAbout(t *testing.T, from controlplane.Mark, name string) []string {
	t.Helper()
	events := must.Get(cluster.Audit().Since(from, controlplane.ByUser(account), controlplane.ByStage(auditv1.StageResponseComplete), func(e *auditv1.Event) bool {
		return e.ObjectRef != nil && e.ObjectRef.Resource == "certificatesigningrequests" && e.ObjectRef.Name == name
	}))(t)
	all := make([]string, 0, len(events))
	for _, e := range events {
		all = append(all, e.Verb+" "+e.ObjectRef.Subresource)
	}
	return all
}

// Pins CSRS-22, CSRS-44 and CSRS-54.
func TestARequestThatBreaksTheRulesOfItsSignerFails(t *testing.T) {
	t.Parallel()
	before := mark(t)
	a := ofUser("mike")
	a.usages = append(a.usages, "server auth")
	csr := decide(t, create(t, admin, pki.Key(t), a), certificatesv1.CertificateApproved, metav1.Time{})
	await.That(t, "it fails", func(context.Context) error {
		if csr = get(t, csr.Name); len(csr.Status.Conditions) != 2 {
			return fmt.Errorf("its status is %+v", csr.Status)
		}
		return nil
	})
	c := csr.Status.Conditions[1]
	if c.Type != "Failed" || c.Status != "True" || c.Reason != "SignerValidationFailure" || c.Message != "invalid usage for client certificate: server auth" ||
		c.LastUpdateTime.IsZero() || c.LastTransitionTime.IsZero() || csr.Status.Certificate != nil {
		t.Errorf("status: %+v", csr.Status)
	}
	obtain(t, pki.Key(t), ofUser("later")) // by now the controller has seen the event of its own write
	if got := requestsAbout(t, before, csr.Name); !slices.Equal(got, []string{"update status"}) {
		t.Errorf("requests: %v", got)
	}
}

// The requests of other signers are nobody's business here. Pins CSRS-47 and CSRS-51.
func TestOtherSignersAreLeftAlone(t *testing.T) {
	t.Parallel()
	before := mark(t)
	var others []*certificatesv1.CertificateSigningRequest
	for _, signer := range []string{"example.com/e2e-certificates", "kubernetes.io/other"} {
		a := ofUser("mike")
		a.signer = signer
		others = append(others, decide(t, create(t, admin, pki.Key(t), a), certificatesv1.CertificateApproved, metav1.Time{}))
	}
	obtain(t, pki.Key(t), ofUser("later"))
	for _, other := range others {
		if now := get(t, other.Name); now.ResourceVersion != other.ResourceVersion {
			t.Errorf("it was changed: %+v", now.Status)
		}
		if got := requestsAbout(t, before, other.Name); len(got) > 0 {
			t.Errorf("requests: %v", got)
		}
	}
}

// A kubelet serves with its certificate. Pins CSRS-26.
func TestAServingCertificateServes(t *testing.T) {
	t.Parallel()
	key := pki.Key(t)
	a := ofNode("tls")
	a.signer, a.usages = serving, []certificatesv1.KeyUsage{"server auth", "digital signature"}
	a.request.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	a.request.Subject = pkix.Name{CommonName: "system:node:tls", Organization: []string{"system:nodes"}}
	c := obtain(t, key, a)
	listener := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}},
	}))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Write([]byte("x"))
			_ = conn.Close()
		}
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must.Get(os.ReadFile(cluster.RootCAFile()))(t))
	conn := must.Get(tls.Dial("tcp", listener.Addr().String(), &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}))(t)
	must.Succeed(t, conn.Close())
}
