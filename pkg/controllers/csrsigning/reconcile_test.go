package csrsigning

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

func TestWhatIsSigned(t *testing.T) {
	for name, edits := range map[string][]func(*certificatesv1.CertificateSigningRequest){
		"CSRS-15, CSRS-24, CSRS-54: a user":           {},
		"CSRS-19: a condition that failed, as False":  {has("Failed", "False")},
		"CSRS-27, CSRS-20: the client of a kubelet":   {to(kubelet), request(t, x509.CertificateRequest{Subject: node}), usages("client auth", "digital signature", "key encipherment")},
		"CSRS-26, CSRS-20: the server of a kubelet":   {to(serving), request(t, x509.CertificateRequest{Subject: node, DNSNames: []string{"one"}}), usages("server auth", "digital signature")},
		"CSRS-29: of an unknown kind, without usages": {to(legacy), request(t, x509.CertificateRequest{}), usages()},
		"CSRS-18: one that is being deleted": {func(r *certificatesv1.CertificateSigningRequest) {
			r.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := csr(t, edits...)
			env, c := start(t, one(files(t)), r)
			cached := must.Get(c.requests.Get("csr"))(t)
			must.Succeed(t, c.reconcile(env.Context(), "csr"))
			signed := written(t, env)
			certificate := pki.Parse(t, signed.Status.Certificate)
			must.Succeed(t, certificate.CheckSignatureFrom(c.cas[0].inForce.Load().Certificate))
			if len(signed.Status.Conditions) != len(r.Status.Conditions) {
				t.Errorf("conditions: %+v", signed.Status.Conditions)
			}
			if got := len(env.RecordedEvents()); got > 0 {
				t.Errorf("%d events", got)
			}
			if cached.Status.Certificate != nil {
				t.Error("the cached object was changed")
			}
		})
	}
}

func TestWhatIsLeftAlone(t *testing.T) {
	onlyClient := one(files(t))
	onlyClient.authorities[3] = authority.Files{}
	for name, edits := range map[string][]func(*certificatesv1.CertificateSigningRequest){
		"CSRS-18: one with a certificate":                        {func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = []byte("x") }},
		"CSRS-19: not approved":                                  {undecided},
		"CSRS-19: denied":                                        {undecided, has("Denied", "True")},
		"CSRS-19: approved and denied":                           {has("Denied", "False")},
		"CSRS-19: failed":                                        {has("Failed", "True")},
		"CSRS-19: failed, no status":                             {has("Failed", "")},
		"CSRS-20, CSRS-47, CSRS-51: the signer of somebody else": {to("example.com/e2e-x")},
		"CSRS-20, CSRS-51: an unknown signer of Kubernetes":      {to("kubernetes.io/other")},
		"CSRS-4d, CSRS-20: a signer without files":               {to(legacy)},
		"CSRS-51: a signer of a similar name":                    {to(client + "-")},
	} {
		t.Run(name, func(t *testing.T) {
			r := csr(t, edits...)
			env, c := start(t, onlyClient, r)
			if depth := c.loop.Inspect().Depth; depth != 0 {
				t.Errorf("%d keys are queued", depth)
			}
			must.Succeed(t, c.reconcile(env.Context(), "csr"))
			if writes := env.Writes(); len(writes) != 0 {
				t.Errorf("requests: %v", writes)
			}
		})
	}
}

// Pins CSRS-19.
func TestARequestIsQueuedWhenItIsApproved(t *testing.T) {
	_, c := start(t, one(files(t)))
	requests := &controllertest.Captured{}
	watch.Objects(requests, certificates.Funcs(c.loop, c.hasSigner))
	requests.Handler.OnUpdate(csr(t, undecided), csr(t, undecided))
	if depth := c.loop.Inspect().Depth; depth != 0 {
		t.Errorf("undecided, %d keys are queued", depth)
	}
	requests.Handler.OnUpdate(csr(t, undecided), csr(t))
	if depth := c.loop.Inspect().Depth; depth != 1 {
		t.Errorf("approved, %d keys are queued", depth)
	}
}

// Pins CSRS-18.
func TestARequestThatIsGone(t *testing.T) {
	env, c := start(t, one(files(t)))
	must.Succeed(t, c.reconcile(env.Context(), "csr"))
	if writes := env.Writes(); len(writes) != 0 {
		t.Errorf("requests: %v", writes)
	}
}

// A request that breaks the rules of its signer fails with one update, which is final.
// Pins CSRS-22, CSRS-44 and CSRS-54.
func TestAViolationFailsTheRequest(t *testing.T) {
	env, c := start(t, one(files(t)), csr(t, usages("client auth", "server auth")))
	cached := must.Get(c.requests.Get("csr"))(t)
	must.Succeed(t, c.reconcile(env.Context(), "csr"))
	failed := written(t, env)
	if len(cached.Status.Conditions) != 1 {
		t.Error("the cached object was changed")
	}
	want := certificatesv1.CertificateSigningRequestCondition{
		Type: "Failed", Status: "True", Reason: "SignerValidationFailure",
		Message: "invalid usage for client certificate: server auth", LastUpdateTime: metav1.NewTime(now),
	}
	if diff := cmp.Diff(want, failed.Status.Conditions[1]); diff != "" || len(failed.Status.Conditions) != 2 || failed.Status.Certificate != nil {
		t.Errorf("status %+v, condition (-want +got):\n%s", failed.Status, diff)
	}
	if c.signerOf(failed) != nil {
		t.Error("it is looked at again")
	}
}

func TestFailures(t *testing.T) {
	resource := certificatesv1.Resource("certificatesigningrequests")
	garbled := func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = []byte("x") }
	for name, tc := range map[string]struct {
		edit    func(*certificatesv1.CertificateSigningRequest)
		refusal error
		err     string
		writes  int
	}{
		"CSRS-21, CSRS-52: a garbled request": {garbled, nil, `unable to parse csr "csr": PEM block type must be CERTIFICATE REQUEST`, 0},
		"CSRS-23, CSRS-52: cannot be signed":  {usages("client auth"), nil, "error auto signing csr: the signer has expired: NotAfter=2027-01-02 03:04:05 +0000 UTC", 0},
		"CSRS-24, CSRS-49: a conflict":        {nil, apierrors.NewConflict(resource, "csr", errors.New("boom")), `error updating signature for csr: Operation cannot be fulfilled on certificatesigningrequests.certificates.k8s.io "csr": boom`, 1},
		"CSRS-24: deleted meanwhile":          {nil, apierrors.NewNotFound(resource, "csr"), `error updating signature for csr: certificatesigningrequests.certificates.k8s.io "csr" not found`, 1},
		"CSRS-24: forbidden":                  {nil, apierrors.NewForbidden(resource, "csr", errors.New("boom")), `error updating signature for csr: certificatesigningrequests.certificates.k8s.io "csr" is forbidden: boom`, 1},
		"CSRS-22: the condition is refused":   {usages("any"), errors.New("boom"), "error adding failure condition for csr: boom", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var edits []func(*certificatesv1.CertificateSigningRequest)
			if tc.edit != nil {
				edits = append(edits, tc.edit)
			}
			env, c := start(t, one(files(t)), csr(t, edits...))
			if strings.Contains(tc.err, "expired") {
				env.Clock.SetTime(now.AddDate(2, 0, 0))
			}
			env.Fake.PrependReactor("update", "certificatesigningrequests", func(clienttesting.Action) (bool, runtime.Object, error) {
				return tc.refusal != nil, nil, tc.refusal
			})
			err := c.reconcile(env.Context(), "csr")
			if err == nil || err.Error() != tc.err || reconcile.IsExpected(err) != apierrors.IsConflict(tc.refusal) {
				t.Errorf("error %v, want %s", err, tc.err)
			}
			if writes := env.Writes(); len(writes) != tc.writes {
				t.Errorf("requests: %v", writes)
			}
		})
	}
}

// The certificate lasts as configured, by the clock of the controller.
// Pins CSRS-11 and CSRS-31.
func TestTheDurationIsCapped(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds *int32
		want    time.Duration // between its ends
	}{
		"CSRS-48: none":          {nil, 24 * time.Hour},
		"CSRS-48: 24h":           {ptr.To[int32](24 * 3600), 24 * time.Hour},
		"CSRS-48: 48h":           {ptr.To[int32](48 * 3600), 24 * time.Hour},
		"CSRS-48: 20h":           {ptr.To[int32](20 * 3600), 20 * time.Hour},
		"CSRS-48: 2h":            {ptr.To[int32](2 * 3600), 2*time.Hour + 5*time.Minute},
		"CSRS-48, CSRS-47: 30 m": {ptr.To[int32](30 * 60), 35 * time.Minute},
		"CSRS-48: 10 m":          {ptr.To[int32](10 * 60), 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, one(files(t)), csr(t, func(r *certificatesv1.CertificateSigningRequest) { r.Spec.ExpirationSeconds = tc.seconds }))
			must.Succeed(t, c.reconcile(env.Context(), "csr"))
			certificate := pki.Parse(t, written(t, env).Status.Certificate)
			if got := certificate.NotAfter.Sub(certificate.NotBefore); got != tc.want || !certificate.NotBefore.Equal(now.Add(-5*time.Minute)) {
				t.Errorf("got %v from %v, want %v", got, certificate.NotBefore, tc.want)
			}
		})
	}
}

// A kubelet creates its request again under the same name. Pins CSRS-63.
func TestTheBackoffOfADeletedRequestIsForgotten(t *testing.T) {
	env, c := start(t, one(files(t)))
	deleted := certificates.Funcs(c.loop, c.hasSigner).Delete
	deleted(csr(t))
	if s := c.loop.Inspect(); s.Depth != 0 {
		t.Errorf("one that has not failed: %+v", s)
	}
	c.loop.AddRateLimited("csr")
	deleted(csr(t))
	env.Run(t, c)
	controllertest.Eventually(t, "it is forgotten", func() bool { return c.loop.Retries("csr") == 0 })
}

// A resync of requests that need nothing, however many, queues and copies nothing.
// Pins CSRS-57 and CSRS-63.
func TestWhatNeedsNothingCostsNothing(t *testing.T) {
	_, c := start(t, one(files(t)))
	done := csr(t, func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = []byte("x") })
	seen := certificates.Funcs(c.loop, c.hasSigner).AddOrUpdate
	if got := testing.AllocsPerRun(100, func() { seen(reconcile.Backlog, done) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if depth := c.loop.Inspect().Depth; depth != 0 {
		t.Errorf("%d keys", depth)
	}
}
