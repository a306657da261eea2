package csrapproving

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

const nodeName = "system:node:one"

type edit = func(*certificatesv1.CertificateSigningRequest)

// csr makes a request of a node for itself.
func csr(t testing.TB, edits ...edit) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr", UID: "uid", ResourceVersion: "7"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: "kubernetes.io/kube-apiserver-client-kubelet",
			Usages:     []certificatesv1.KeyUsage{"client auth", "digital signature", "key encipherment"},
			Username:   nodeName,
			UID:        "user",
			Groups:     []string{"system:nodes", "system:authenticated"},
			Extra:      map[string]certificatesv1.ExtraValue{"a": {"b", "c"}},
		},
	}
	asks(t, pkix.Name{CommonName: nodeName, Organization: []string{"system:nodes"}})(r)
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func asks(t testing.TB, subject pkix.Name) edit {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.Request = pki.Request(t, pki.Key(t), x509.CertificateRequest{Subject: subject})
	}
}

func by(user string) edit {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Username = user }
}

func signer(name string) edit {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = name }
}

func usages(all ...certificatesv1.KeyUsage) edit {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Usages = all }
}

func has(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) edit {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: status})
	}
}

// start makes an approver for whom the API server allows some subresources.
func start(t testing.TB, allowed []string, objects ...runtime.Object) (*controllertest.Env, *approver) {
	t.Helper()
	env := controllertest.New(t, objects...)
	a, err := newApprover(env.Env)
	must.Succeed(t, err)
	env.Fake.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateActionImpl).Object.(*authorizationv1.SubjectAccessReview).DeepCopy()
		for _, subresource := range allowed {
			review.Status.Allowed = review.Status.Allowed || review.Spec.ResourceAttributes.Subresource == subresource
		}
		review.Status.EvaluationError = "ignored"
		return true, review, nil
	})
	env.Start(t)
	return env, a
}

// reviewed are the subresources that the API server was asked about.
func reviewed(env *controllertest.Env) []string {
	var all []string
	for _, action := range env.Writes() {
		if created, ok := action.(clienttesting.CreateActionImpl); ok {
			all = append(all, created.Object.(*authorizationv1.SubjectAccessReview).Spec.ResourceAttributes.Subresource)
		}
	}
	return all
}

func TestApproval(t *testing.T) {
	const self, other = "Auto approving self kubelet client certificate after SubjectAccessReview.", "Auto approving kubelet client certificate after SubjectAccessReview."
	bootstrap := by("system:bootstrap:abc")
	for name, tc := range map[string]struct {
		edits    []edit
		allowed  []string
		reviewed []string
		message  string
	}{
		"CSRA-12b, CSRA-13a, CSRA-25: a node for itself": {nil, []string{"selfnodeclient"}, []string{"selfnodeclient"}, self},
		"CSRA-12b: without encipherment":                 {[]edit{usages("digital signature", "client auth", "client auth")}, []string{"selfnodeclient"}, []string{"selfnodeclient"}, self},
		"CSRA-13a: both are allowed":                     {nil, []string{"nodeclient", "selfnodeclient"}, []string{"selfnodeclient"}, self},
		"CSRA-13b, CSRA-13f, CSRA-19: only as a node":    {nil, []string{"nodeclient"}, []string{"selfnodeclient", "nodeclient"}, other},
		"CSRA-13b, CSRA-19, CSRA-25: by bootstrap":       {[]edit{bootstrap}, []string{"nodeclient", "selfnodeclient"}, []string{"nodeclient"}, other},
		"CSRA-12b: the user of another node":             {[]edit{by("system:node:two")}, []string{"nodeclient"}, []string{"nodeclient"}, other},
		"CSRA-10: failed, and being deleted": {[]edit{has("Failed", "True"), func(r *certificatesv1.CertificateSigningRequest) {
			r.DeletionTimestamp = ptr.To(metav1.Now())
		}}, []string{"selfnodeclient"}, []string{"selfnodeclient"}, self},
	} {
		t.Run(name, func(t *testing.T) {
			r := csr(t, tc.edits...)
			env, a := start(t, tc.allowed, r)
			cached := must.Get(a.requests.Get("csr"))(t)
			must.Succeed(t, a.reconcile(env.Context(), "csr"))
			if len(cached.Status.Conditions) != len(r.Status.Conditions) {
				t.Error("CSRA-9: the cached object was changed")
			}
			if diff := cmp.Diff(tc.reviewed, reviewed(env)); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
			writes := env.Writes()
			last := writes[len(writes)-1]
			if !last.Matches("update", "certificatesigningrequests") || last.GetSubresource() != "approval" {
				t.Fatalf("CSRA-6: requests: %v", writes)
			}
			approved := last.(clienttesting.UpdateActionImpl).Object.(*certificatesv1.CertificateSigningRequest)
			want := certificatesv1.CertificateSigningRequestCondition{Type: "Approved", Status: "True", Reason: "AutoApproved", Message: tc.message}
			if diff := cmp.Diff(append(r.Status.Conditions, want), approved.Status.Conditions); diff != "" || approved.ResourceVersion != "7" {
				t.Errorf("version %s, conditions (-want +got):\n%s", approved.ResourceVersion, diff)
			}
			if len(env.RecordedEvents()) > 0 {
				t.Error("there are events")
			}
		})
	}
}

// Pins CSRA-5, CSRA-13c, CSRA-13e and CSRA-16.
func TestReviewsAndConditions(t *testing.T) {
	r := csr(t)
	env, a := start(t, []string{"selfnodeclient"}, r)
	must.Succeed(t, a.reconcile(env.Context(), "csr"))
	writes := env.Writes()
	if len(writes) != 2 {
		t.Fatalf("requests: %v", writes)
	}
	want := authorizationv1.SubjectAccessReviewSpec{
		User: nodeName, UID: "user", Groups: []string{"system:nodes", "system:authenticated"},
		Extra: map[string]authorizationv1.ExtraValue{"a": {"b", "c"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: "certificates.k8s.io", Version: "*", Resource: "certificatesigningrequests", Verb: "create", Subresource: "selfnodeclient",
		},
	}
	if diff := cmp.Diff(want, writes[0].(clienttesting.CreateActionImpl).Object.(*authorizationv1.SubjectAccessReview).Spec); diff != "" {
		t.Errorf("review (-want +got):\n%s", diff)
	}
	condition := writes[1].(clienttesting.UpdateActionImpl).Object.(*certificatesv1.CertificateSigningRequest).Status.Conditions
	if diff := cmp.Diff([]certificatesv1.CertificateSigningRequestCondition{{
		Type: "Approved", Status: "True", Reason: "AutoApproved", Message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
	}}, condition); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if extra := review(csr(t, func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Extra = nil }), nodeClient).Spec.Extra; extra == nil || len(extra) > 0 {
		t.Errorf("extra of none: %v", extra)
	}
}

func TestWhatIsLeftAlone(t *testing.T) {
	for name, edits := range map[string][]edit{
		"CSRA-9: issued":                  {func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = []byte("x") }},
		"CSRA-10, CSRA-20: approved":      {has("Approved", "True")},
		"CSRA-10: approved, as False":     {has("Approved", "False")},
		"CSRA-10, CSRA-20: denied":        {has("Denied", "True")},
		"CSRA-15, CSRA-22: a user":        {signer("kubernetes.io/kube-apiserver-client")},
		"CSRA-15: the server of a node":   {signer("kubernetes.io/kubelet-serving")},
		"CSRA-12a: the signer of another": {signer("example.com/kubelet")},
		"CSRA-15, CSRA-12a: mike":         {asks(t, pkix.Name{CommonName: "mike", Organization: []string{"system:nodes"}}), by("mike")},
		"CSRA-15: no organization":        {asks(t, pkix.Name{CommonName: nodeName})},
		"CSRA-15: another organization":   {asks(t, pkix.Name{CommonName: nodeName, Organization: []string{"system:master"}})},
		"CSRA-15: server auth as well":    {usages("client auth", "digital signature", "key encipherment", "server auth")},
	} {
		t.Run(name, func(t *testing.T) {
			env, a := start(t, []string{"selfnodeclient", "nodeclient"}, csr(t, edits...))
			must.Succeed(t, a.reconcile(env.Context(), "csr"))
			if writes := env.Writes(); len(writes) != 0 {
				t.Errorf("requests: %v", writes)
			}
		})
	}
}

// Pins CSRA-9.
func TestARequestThatIsGone(t *testing.T) {
	env, a := start(t, nil)
	must.Succeed(t, a.reconcile(env.Context(), "csr"))
	if writes := env.Writes(); len(writes) != 0 {
		t.Errorf("requests: %v", writes)
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		edits    []edit
		reviewed []string
		err      string
	}{
		"CSRA-14, CSRA-23, CSRA-25: a node for itself": {nil, []string{"selfnodeclient", "nodeclient"}, `recognized csr "csr" as [selfnodeclient nodeclient] but subject access review was not approved`},
		"CSRA-14, CSRA-23: by bootstrap":               {[]edit{by("system:bootstrap:abc")}, []string{"nodeclient"}, `recognized csr "csr" as [nodeclient] but subject access review was not approved`},
	} {
		t.Run(name, func(t *testing.T) {
			env, a := start(t, nil, csr(t, tc.edits...))
			err := a.reconcile(env.Context(), "csr")
			if err == nil || err.Error() != tc.err || !reconcile.IsExpected(err) {
				t.Errorf("error %v, want %s, which is no failure", err, tc.err)
			}
			if diff := cmp.Diff(tc.reviewed, reviewed(env)); diff != "" || len(env.Writes()) != len(tc.reviewed) {
				t.Errorf("requests: %v, reviews (-want +got):\n%s", env.Writes(), diff)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	conflict := apierrors.NewConflict(certificatesv1.Resource("certificatesigningrequests"), "csr", boom)
	for name, tc := range map[string]struct {
		edits   []edit
		verb    string
		refusal error
		err     string
		writes  int
	}{
		"CSRA-13d: the review fails":       {nil, "create", boom, "boom", 1},
		"CSRA-13e, CSRA-20: a conflict":    {nil, "update", conflict, `error updating approval for csr: Operation cannot be fulfilled on certificatesigningrequests.certificates.k8s.io "csr": boom`, 2},
		"CSRA-11: it cannot be parsed":     {[]edit{func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = nil }}, "none", nil, `unable to parse csr "csr": PEM block type must be CERTIFICATE REQUEST`, 0},
		"CSRA-13e, CSRA-20: it is deleted": {nil, "update", apierrors.NewNotFound(certificatesv1.Resource("certificatesigningrequests"), "csr"), `error updating approval for csr: certificatesigningrequests.certificates.k8s.io "csr" not found`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			env, a := start(t, []string{"selfnodeclient"}, csr(t, tc.edits...))
			env.Fake.PrependReactor(tc.verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.refusal })
			err := a.reconcile(env.Context(), "csr")
			if err == nil || err.Error() != tc.err || reconcile.IsExpected(err) != apierrors.IsConflict(tc.refusal) {
				t.Errorf("error %v, want %s", err, tc.err)
			}
			if writes := env.Writes(); len(writes) != tc.writes {
				t.Errorf("requests: %v", writes)
			}
		})
	}
}

// A permission that comes later approves, without an event. What a predecessor left is replayed.
// Pins CSRA-18 and CSRA-24.
func TestARefusedRequestIsTriedAgain(t *testing.T) {
	env, a := start(t, nil, csr(t))
	env.Run(t, a)
	controllertest.Eventually(t, "it is refused", func() bool { return len(reviewed(env)) == 2 })
	env.Fake.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	env.EventuallyAsTimePasses(t, "it is approved", 200*time.Millisecond, func() bool {
		r := must.Get(env.Fake.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "csr", metav1.GetOptions{}))(t)
		return len(r.Status.Conditions) == 1
	})
	if s := a.loop.Inspect(); s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// What cannot be approved is not queued. Pins CSRA-26 and CSRA-27.
func TestOnlyCandidatesAreQueued(t *testing.T) {
	_, a := start(t, nil)
	requests := &controllertest.Captured{}
	watch.Objects(requests, certificates.Funcs(a.loop, isCandidate))
	requests.Handler.OnUpdate(csr(t), csr(t, has("Denied", "True")))
	requests.Handler.OnAdd(csr(t, signer("example.com/a")), false)
	requests.Handler.OnAdd(csr(t, has("Denied", "True")), false)
	requests.Handler.OnAdd(csr(t, func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = []byte("x") }), true)
	if s := a.loop.Inspect(); s.Depth != 0 {
		t.Errorf("%+v", s)
	}
	requests.Handler.OnUpdate(csr(t, signer("example.com/a")), csr(t))
	if s := a.loop.Inspect(); s.Depth != 1 {
		t.Errorf("%+v", s)
	}
}

// A kubelet creates its request again under the same name. Pins CSRA-27.
func TestTheBackoffOfADeletedRequestIsForgotten(t *testing.T) {
	env, a := start(t, nil)
	deleted := certificates.Funcs(a.loop, isCandidate).Delete
	deleted(csr(t))
	if s := a.loop.Inspect(); s.Depth != 0 {
		t.Errorf("one that has not failed: %+v", s)
	}
	a.loop.AddRateLimited("csr")
	requests := &controllertest.Captured{}
	watch.Objects(requests, certificates.Funcs(a.loop, isCandidate))
	requests.Handler.OnDelete(csr(t))
	env.Run(t, a)
	controllertest.Eventually(t, "it is forgotten", func() bool { return a.loop.Retries("csr") == 0 })
}

// Pins CSRA-28.
func TestAFailureIsLogged(t *testing.T) {
	_, a := start(t, nil, csr(t, func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = nil }))
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	controllertest.Eventually(t, "it fails", func() bool { return a.loop.Inspect().Failed == 1 })
	stop()
	must.Succeed(t, <-ended)
	if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(log, `Reconcile failed err=`) || !strings.Contains(log, `key="csr"`) {
		t.Errorf("log: %s", log)
	}
}

// Pins CSRA-1, CSRA-3 and CSRA-8.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, _ := d.Enabled(cfg); !enabled || d.Name != "certificatesigningrequest-approving-controller" || d.Gate != "" ||
		d.ServiceAccount != "certificate-controller" || d.Aliases[0] != "csrapproving" || d.EventSource != "" {
		t.Errorf("%+v", d)
	}
	_, a := start(t, nil)
	if s := a.loop.Inspect(); s.Queue != "certificate" || s.Workers != 5 {
		t.Errorf("%+v", s)
	}
}
