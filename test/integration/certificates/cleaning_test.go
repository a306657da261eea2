package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

// foreign asks a signer that nobody here is.
func foreign(name string) ask {
	a := ofUser(name)
	a.signer = "example.com/certificates"
	return a
}

// TestOldRequestsAreDeleted is not parallel: it edits the manager's configuration. A pass is
// made when the controller starts. Pins CSRC-1 and CSRC-23.
func TestOldRequestsAreDeleted(t *testing.T) {
	enable := func(on bool) {
		harness.CarryOut(t, cluster.Manager, func(c *manager.Config) { c.Controllers.CSRCleaner.Enabled = &on })
	}
	enable(false)
	before, now := mark(t), time.Now()
	long, recently := metav1.NewTime(now.Add(-2*time.Hour)), metav1.NewTime(now.Add(-50*time.Minute))
	ask := func(name string) *certificatesv1.CertificateSigningRequest {
		return create(t, admin, pki.Key(t), foreign(name))
	}
	issue := func(csr *certificatesv1.CertificateSigningRequest, end time.Time) *certificatesv1.CertificateSigningRequest {
		csr = csr.DeepCopy()
		csr.Status.Certificate = pki.CA(t, now.AddDate(-1, 0, 0), func(c *x509.Certificate) { c.NotAfter = end }).Cert
		return must.Get(admin.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), csr, metav1.UpdateOptions{}))(t)
	}
	gone := map[string]*certificatesv1.CertificateSigningRequest{
		"CSRC-7: issued 2 h ago":        issue(decide(t, ask("a"), "Approved", long), now.Add(time.Hour)),
		"CSRC-8: denied 2 h ago":        decide(t, ask("b"), "Denied", long),
		"CSRC-11: expired":              issue(decide(t, ask("c"), "Approved", recently), now.Add(-time.Minute)),
		"CSRC-12: approved 25 h ago":    decide(t, ask("d"), "Approved", metav1.NewTime(now.Add(-25*time.Hour))),
		"CSRC-9: failed 2 h ago, below": failed(t, decide(t, ask("e"), "Approved", long), long),
	}
	kept := map[string]*certificatesv1.CertificateSigningRequest{
		"CSRC-10: pending":               ask("f"),
		"CSRC-7: issued 50 min ago":      issue(decide(t, ask("g"), "Approved", recently), now.Add(time.Hour)),
		"CSRC-8: denied 50 min ago":      decide(t, ask("h"), "Denied", recently),
		"CSRC-12: approved 2 h ago":      decide(t, ask("i"), "Approved", long),
		"CSRC-9, CSRC-18: failed lately": failed(t, decide(t, ask("j"), "Approved", long), recently),
	}
	enable(true)
	for name, csr := range gone {
		t.Run(name, func(t *testing.T) {
			await.That(t, "it is deleted", func(ctx context.Context) error {
				_, err := admin.CertificatesV1().CertificateSigningRequests().Get(ctx, csr.Name, metav1.GetOptions{})
				return await.Gone(err)
			})
			// CSRC-4, CSRC-24: the account of the controllers, and one request.
			if got := requestsAbout(t, before, csr.Name); !slices.Equal(got, []string{"delete "}) {
				t.Errorf("requests: %v", got)
			}
		})
	}
	for name, csr := range kept {
		t.Run(name, func(t *testing.T) {
			if got := get(t, csr.Name); got.ResourceVersion != csr.ResourceVersion {
				t.Errorf("it was changed: %+v", got.Status)
			}
		})
	}
}

// failed has the signer of a request give up on it, as of a time.
func failed(t *testing.T, csr *certificatesv1.CertificateSigningRequest, at metav1.Time) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: "Failed", Status: "True", Reason: "Test", LastUpdateTime: at,
	})
	return must.Get(admin.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), csr, metav1.UpdateOptions{}))(t)
}

// ahead is a clock that is fast by as much as a PodCertificateRequest is kept.
type ahead struct{ clock.RealClock }

const lead = 15 * time.Minute

func (ahead) Now() time.Time { return time.Now().Add(lead) }

func (a ahead) Since(at time.Time) time.Duration { return a.Now().Sub(at) }

// A request goes at the first pass after 15 minutes, by the clock of the manager.
// Pins PCR-6, PCR-9, PCR-16, PCR-18 and PCR-20.
func TestPodCertificateRequestsAreDeleted(t *testing.T) {
	t.Parallel()
	before, namespace := mark(t), cluster.Namespace(t)
	for _, name := range []string{"pending", "held"} {
		podRequest(t, namespace, name)
	}
	on := harness.Only(func(c *manager.Config) []**bool { return []**bool{&c.Controllers.PodCertificateRequestCleaner.Enabled} })
	m := manager.Join(t, cluster.ControlPlane, runtime.Options{Clock: ahead{}}, harness.All(on, harness.OwnLease(t), func(c *manager.Config) {
		c.FeatureGates = map[string]bool{"PodCertificateRequest": true}
	}))
	must.Succeed(t, m.WaitRunning(t.Context()))
	await.That(t, "the requests are deleted", func(ctx context.Context) error {
		left, err := admin.CertificatesV1beta1().PodCertificateRequests(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = errors.New("some are left")
		}
		return err
	})
	events := must.Get(cluster.Audit().Since(before, controlplane.ByResource("podcertificaterequests"), controlplane.ByStage(auditv1.StageResponseComplete), controlplane.ByVerb("delete", "list", "watch")))(t)
	deleted := 0
	for _, e := range events {
		byCleaner := e.User.Username == "system:serviceaccount:kube-system:podcertificaterequestcleaner"
		if e.Verb == "delete" && byCleaner {
			deleted++
		}
		if e.Verb != "delete" && byCleaner {
			t.Errorf("the cache is filled with the rights of the controller: %s %s", e.Verb, e.RequestURI)
		}
	}
	if deleted != 2 {
		t.Errorf("%d requests delete two objects", deleted)
	}
}

// podRequest is what a kubelet creates for a pod.
func podRequest(t *testing.T, namespace, name string) {
	t.Helper()
	stub, _ := pem.Decode(pki.Request(t, pki.Key(t), x509.CertificateRequest{}))
	must.Get(admin.CertificatesV1beta1().PodCertificateRequests(namespace).Create(t.Context(), &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: "example.com/pods", PodName: "pod", PodUID: "0b3ab9ac-2f3a-4b5c-9a1e-1c5d0f6f7a11",
			ServiceAccountName: "default", ServiceAccountUID: "account", NodeName: "node", NodeUID: "node",
			StubPKCS10Request: stub.Bytes,
		},
	}, metav1.CreateOptions{}))(t)
}
