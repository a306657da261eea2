package csrsigning

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/ptr"

	pkgconfig "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
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
	must.Succeed(t, c.reconcile(env.Context(), "csr"))
	failed := written(t, env)
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

func TestValue(t *testing.T) {
	pair := func(name string) authority.Files { return authority.Files{Cert: name + ".crt", Key: name + ".key"} }
	ca := func(name string) v1beta1.SigningCA {
		return v1beta1.SigningCA{CertFile: name + ".crt", PrivateKeyFile: name + ".key"}
	}
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		edit  func(*v1beta1.CSRSigningController)
		want  config
		files []string
	}{
		"CSRS-4a: no files": {func(c *v1beta1.CSRSigningController) { c.CertificateDuration = &metav1.Duration{Duration: day} }, config{}, nil},
		"CSRS-4d, CSRS-6, CSRS-11: one pair": {func(c *v1beta1.CSRSigningController) { c.AllSigners = ca("all") },
			config{365 * day, [4]authority.Files{pair("all"), pair("all"), pair("all"), pair("all")}}, []string{"all.crt", "all.key"}},
		"CSRS-7: kubelet-serving": {func(c *v1beta1.CSRSigningController) { c.KubeletServing = ca("a") },
			config{365 * day, [4]authority.Files{pair("a")}}, []string{"a.crt", "a.key"}},
		"CSRS-8: kube-apiserver-client-kubelet": {func(c *v1beta1.CSRSigningController) { c.KubeletClient = ca("a") },
			config{365 * day, [4]authority.Files{1: pair("a")}}, []string{"a.crt", "a.key"}},
		"CSRS-9: kube-apiserver-client": {func(c *v1beta1.CSRSigningController) { c.KubeAPIServerClient = ca("a") },
			config{365 * day, [4]authority.Files{2: pair("a")}}, []string{"a.crt", "a.key"}},
		"CSRS-4d, CSRS-10: two pairs": {func(c *v1beta1.CSRSigningController) { c.KubeletServing, c.LegacyUnknown = ca("a"), ca("b") },
			config{365 * day, [4]authority.Files{0: pair("a"), 3: pair("b")}}, []string{"a.crt", "a.key", "b.crt", "b.key"}},
		"CSRS-11: the duration": {func(c *v1beta1.CSRSigningController) {
			c.AllSigners, c.CertificateDuration = ca("all"), &metav1.Duration{Duration: day}
		}, config{day, [4]authority.Files{pair("all"), pair("all"), pair("all"), pair("all")}}, []string{"all.crt", "all.key"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := v1beta1.NewDefault()
			tc.edit(&cfg.Controllers.CSRSigning)
			value := configOf(cfg)
			if value != tc.want {
				t.Errorf("got %+v, want %+v", value, tc.want)
			}
			d := Descriptor()
			if got := d.FollowedFiles(value); !slices.Equal(got, tc.files) || d.Files(value) != nil {
				t.Errorf("follows %v, restarts with %v", got, d.Files(value))
			}
		})
	}
}

// Files of upstream say the same. Pins CSRS-5, CSRS-6, CSRS-7, CSRS-8, CSRS-9, CSRS-10 and CSRS-11.
func TestValueOfUpstreamsConfiguration(t *testing.T) {
	for fields, want := range map[string]config{
		"ClusterSigningCertFile: a, ClusterSigningKeyFile: b": {24 * time.Hour, [4]authority.Files{{Cert: "a", Key: "b"}, {Cert: "a", Key: "b"}, {Cert: "a", Key: "b"}, {Cert: "a", Key: "b"}}},
		"KubeletServingSignerConfiguration: {CertFile: a, KeyFile: b}, KubeletClientSignerConfiguration: {CertFile: c, KeyFile: d}, " +
			"KubeAPIServerClientSignerConfiguration: {CertFile: e, KeyFile: f}, LegacyUnknownSignerConfiguration: {CertFile: g, KeyFile: h}": {
			24 * time.Hour, [4]authority.Files{{Cert: "a", Key: "b"}, {Cert: "c", Key: "d"}, {Cert: "e", Key: "f"}, {Cert: "g", Key: "h"}},
		},
	} {
		document, err := pkgconfig.Load("f.yaml", []byte("apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: KubeControllerManagerConfiguration\n"+
			"CSRSigningController: {"+fields+", ClusterSigningDuration: 24h}\n"))
		must.Succeed(t, err)
		if got := configOf(document.Config); got != want {
			t.Errorf("%s: got %+v", fields, got)
		}
	}
}

// Pins CSRS-61.
func TestWithoutFilesThereIsNothingToRun(t *testing.T) {
	d := Descriptor()
	if c, err := d.New(controllertest.New(t).Env, d.Value(v1beta1.NewDefault())); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
}

// Pins CSRS-4e and CSRS-59.
func TestNewFailsWithACAThatCannotBeUsed(t *testing.T) {
	for name, tc := range map[string]struct {
		pair   pki.Pair
		err    string
		signer int
	}{
		"the key of another":            {pki.Pair{Cert: pki.CA(t, now).Cert, Key: pki.CA(t, now).Key}, "failed to init kubernetes.io/kubelet-serving certificate controller: error reading CA cert file \"CERT\": tls: private key does not match public key", 0},
		"expired":                       {pki.CA(t, now.AddDate(-3, 0, 0)), "failed to init kubernetes.io/kube-apiserver-client certificate controller: error reading CA cert file \"CERT\": the certificate has expired: NotAfter=2024-01-02 03:04:05 +0000 UTC", 2},
		"CSRS-4d: the first that fails": {pki.Pair{Cert: []byte("x"), Key: []byte("x")}, "failed to init kubernetes.io/kube-apiserver-client-kubelet certificate controller: error reading CA cert file \"CERT\": tls: failed to find any PEM data in certificate input", 1},
	} {
		t.Run(name, func(t *testing.T) {
			certFile, keyFile := tc.pair.Write(t, t.TempDir())
			cfg := config{duration: time.Hour}
			for n := tc.signer; n < len(profiles); n++ {
				cfg.authorities[n] = authority.Files{Cert: certFile, Key: keyFile}
			}
			_, err := newController(controllertest.New(t).Env, cfg)
			if err == nil || strings.ReplaceAll(err.Error(), certFile, "CERT") != tc.err {
				t.Errorf("error %v, want %s", err, tc.err)
			}
		})
	}
}

// Pins CSRS-4d, CSRS-56 and CSRS-62.
func TestSigners(t *testing.T) {
	shared, own := files(t), files(t)
	env := controllertest.New(t)
	c, err := newController(env.Env, config{duration: time.Hour, authorities: [4]authority.Files{shared, {}, own, shared}})
	must.Succeed(t, err)
	if len(c.cas) != 2 || c.signers[serving].ca != c.signers[legacy].ca || c.signers[client].ca == c.signers[serving].ca || c.signers[kubelet] != nil {
		t.Errorf("%d CAs, signers %v", len(c.cas), c.signers)
	}
	if s := c.loop.Inspect(); s.Queue != "certificate" || s.Workers != 15 {
		t.Errorf("%+v", s)
	}
	// What is said of the signer that is left out.
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	must.Succeed(t, c.begin(klog.NewContext(t.Context(), logger)))
	if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(log,
		`Skipping CSR signer controller because specific files were specified for other signers and not this one`) || !strings.Contains(log, kubelet) {
		t.Errorf("log: %s", log)
	}
}

// Pins CSRS-1, CSRS-2 and CSRS-3.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, _ := d.Enabled(cfg); !enabled || d.Name != "certificatesigningrequest-signing-controller" || d.Gate != "" ||
		d.ServiceAccount != "certificate-controller" || d.Aliases[0] != "csrsigning" || d.EventSource != "" {
		t.Errorf("%+v", d)
	}
}

// following runs a controller and tells it of changes of its files.
type following struct {
	*controllertest.Env
	c   *signingController
	log ktesting.Buffer
}

func follow(t *testing.T, cfg config) *following {
	t.Helper()
	env := controllertest.New(t)
	c, err := newController(env.Env, cfg)
	must.Succeed(t, err)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	f := &following{Env: env, c: c, log: logger.GetSink().(ktesting.Underlier).GetBuffer()}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	done := make(chan error, 1)
	go func() { done <- c.follow(ctx) }()
	t.Cleanup(func() {
		cancel()
		must.Succeed(t, <-done)
	})
	return f
}

// says reports a change and waits for what is logged about it.
func (f *following) says(t *testing.T, text string) {
	t.Helper()
	before := strings.Count(f.log.String(), text)
	f.FilesChanged <- struct{}{}
	controllertest.Eventually(t, "the log says "+text, func() bool { return strings.Count(f.log.String(), text) == before+1 })
}

// The CA follows its files, one that is half written, or bad otherwise, excepted.
// Pins CSRS-58, CSRS-59 and MGR-121.
func TestTheCAFollowsItsFiles(t *testing.T) {
	const used, unused, back = "The CA of a signer has changed certFile=", "cannot be used; the previous one stays in force", "The files contain the CA in force again"
	pair := files(t)
	f := follow(t, one(pair))
	ca := f.c.cas[0]
	first := ca.inForce.Load()
	firstPair := pki.Pair{Cert: must.Get(os.ReadFile(pair.Cert))(t), Key: must.Get(os.ReadFile(pair.Key))(t)}
	inForce := func(want *authority.Authority) {
		t.Helper()
		if ca.inForce.Load() != want {
			t.Error("another CA is in force")
		}
	}
	second := pki.CA(t, now)
	pki.WriteFile(t, pair.Cert, second.Cert)
	f.says(t, unused)
	inForce(first)
	if log := f.log.String(); !strings.Contains(log, pair.Cert) || !strings.Contains(log, "private key does not match public key") {
		t.Errorf("log: %s", log)
	}
	pki.WriteFile(t, pair.Key, second.Key)
	f.says(t, used)
	changed := ca.inForce.Load()
	if changed == first || changed.Equal(first) {
		t.Error("the first CA is in force")
	}
	for name, bad := range map[string]pki.Pair{
		"half":       {Cert: second.Cert[:100], Key: second.Key},
		"empty":      {Cert: nil, Key: second.Key},
		"expired":    pki.CA(t, now.AddDate(-3, 0, 0)),
		"no CA":      pki.CA(t, now, func(c *x509.Certificate) { c.IsCA = false }),
		"two":        {Cert: append(slices.Clone(second.Cert), second.Cert...), Key: second.Key},
		"of another": {Cert: firstPair.Cert, Key: second.Key},
	} {
		bad.Write(t, filepath.Dir(pair.Cert))
		f.says(t, unused)
		if inForce(changed); t.Failed() {
			t.Fatal(name)
		}
	}
	must.Succeed(t, os.Remove(pair.Key))
	f.says(t, unused)
	inForce(changed)
	second.Write(t, filepath.Dir(pair.Cert))
	f.says(t, back)
	inForce(changed)
	if strings.Contains(f.log.String(), string(second.Key[40:80])) {
		t.Error("the log has a part of a key")
	}
}

// Of several pairs only what changed is said. Pins CSRS-58.
func TestNothingIsSaidTwice(t *testing.T) {
	a, b := files(t), files(t)
	f := follow(t, config{duration: time.Hour, authorities: [4]authority.Files{a, b}})
	pki.WriteFile(t, a.Cert, []byte("x"))
	f.says(t, "cannot be used")
	pki.CA(t, now).Write(t, filepath.Dir(b.Cert))
	f.says(t, "The CA of a signer has changed certFile=")
	if got := strings.Count(f.log.String(), "cannot be used"); got != 1 {
		t.Errorf("said %d times:\n%s", got, f.log)
	}
}

// A running controller signs with the new pair, and keeps its queue and what it has.
// Pins CSRS-53 and CSRS-58.
func TestARunningControllerSignsWithTheNewCA(t *testing.T) {
	pair := files(t)
	waiting := csr(t) // what was left by a predecessor
	env := controllertest.New(t, waiting)
	c, err := newController(env.Env, one(pair))
	must.Succeed(t, err)
	env.Start(t)
	env.Run(t, c)
	signedBy := func(name string, want *x509.Certificate) {
		t.Helper()
		var signed *certificatesv1.CertificateSigningRequest
		controllertest.Eventually(t, name+" is signed", func() bool {
			signed = must.Get(env.Fake.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{}))(t)
			return len(signed.Status.Certificate) > 0
		})
		must.Succeed(t, pki.Parse(t, signed.Status.Certificate).CheckSignatureFrom(want))
	}
	first := c.cas[0].inForce.Load()
	signedBy("csr", first.Certificate)
	next := pki.CA(t, now)
	next.Write(t, filepath.Dir(pair.Cert))
	env.FilesChanged <- struct{}{}
	controllertest.Eventually(t, "the new CA is in force", func() bool { return c.cas[0].inForce.Load() != first })
	later := csr(t, func(r *certificatesv1.CertificateSigningRequest) { r.Name, r.ResourceVersion = "later", "" })
	must.Get(env.Fake.CertificatesV1().CertificateSigningRequests().Create(t.Context(), later, metav1.CreateOptions{}))(t)
	signedBy("later", pki.Parse(t, next.Cert))
	controllertest.Eventually(t, "both are done with", func() bool {
		got := c.loop.Inspect()
		return got.Reconciled >= 2 && got.Failed == 0
	})
}

// What an expired CA could not sign, a new one signs, although the next retry is far off. What another CA has to sign
// waits. Pins CSRS-66.
func TestANewCASignsWhatWaits(t *testing.T) {
	pair, other := files(t), files(t)
	env := controllertest.New(t, csr(t), csr(t, to(legacy), func(r *certificatesv1.CertificateSigningRequest) { r.Name = "other" }))
	c, err := newController(env.Env, config{duration: time.Hour, authorities: [4]authority.Files{2: pair, 3: other}})
	must.Succeed(t, err)
	later := now.AddDate(2, 0, 0)
	env.Clock.SetTime(later)
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "the requests wait for a retry", func() bool {
		return c.loop.Retries("csr") > 0 && c.loop.Retries("other") > 0 && len(c.loop.Inspect().InFlight) == 0
	})
	next := pki.CA(t, later)
	next.Write(t, filepath.Dir(pair.Cert))
	env.FilesChanged <- struct{}{}
	controllertest.Eventually(t, "the request is signed", func() bool {
		signed := must.Get(env.Fake.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "csr", metav1.GetOptions{}))(t)
		return len(signed.Status.Certificate) > 0
	})
	if retries := c.loop.Retries("other"); retries != 1 {
		t.Errorf("what another CA has to sign was tried %d times", retries)
	}
}

// A request fails for the first time while a new CA comes into force: it is not known yet that it waits. The clock
// stands, so nothing else retries it. Pins CSRS-66.
func TestANewCASignsWhatFailsMeanwhile(t *testing.T) {
	pair := files(t)
	env := controllertest.New(t, csr(t))
	c, err := newController(env.Env, one(pair))
	must.Succeed(t, err)
	next := pki.CA(t, now)
	env.RefuseIf("update certificatesigningrequests/status csr", errors.New("boom"), func(n int) bool {
		if n == 1 {
			next.Write(t, filepath.Dir(pair.Cert))
			if !c.cas[0].renew(t.Context(), now) {
				t.Error("the CA is the same")
			}
			c.retryWith(t.Context(), c.cas[0])
		}
		return n == 1
	})
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "the request is signed", func() bool {
		r := controllertest.MustStored[*certificatesv1.CertificateSigningRequest](t, env, "", "csr")
		return len(r.Status.Certificate) > 0
	})
}

// The CA of one signer has expired when the process starts, or another one becomes the leader: the others sign. Pins
// CSRS-67.
func TestAnExpiredCAKeepsNoOtherSignerFromSigning(t *testing.T) {
	pair, expired := files(t), expiredFiles(t)
	other := csr(t, to(legacy), func(r *certificatesv1.CertificateSigningRequest) { r.Name = "other" })
	env := controllertest.New(t, csr(t), other)
	c, err := newController(env.Env, config{duration: time.Hour, authorities: [4]authority.Files{2: pair, 3: expired}})
	must.Succeed(t, err)
	log := began(t, c)
	if strings.Count(log, "cannot be used; its requests wait until the files change") != 1 ||
		!strings.Contains(log, expired.Cert) || !strings.Contains(log, "the certificate has expired") {
		t.Errorf("log: %s", log)
	}
	env.Start(t)
	env.Run(t, c)
	signed := func(name string) func() bool {
		return func() bool {
			r := controllertest.MustStored[*certificatesv1.CertificateSigningRequest](t, env, "", name)
			return len(r.Status.Certificate) > 0
		}
	}
	controllertest.Eventually(t, "the signer whose CA is valid signs", signed("csr"))
	controllertest.Eventually(t, "the request of the other one waits", func() bool { return c.loop.Retries("other") > 0 })
	if signed("other")() {
		t.Error("an expired CA has signed")
	}
	pki.CA(t, now).Write(t, filepath.Dir(expired.Cert))
	env.FilesChanged <- struct{}{}
	controllertest.Eventually(t, "it signs with its new CA", signed("other"))
}

// The files of a CA are replaced by those of one that has expired, and then the controller restarts, which an edit may
// cause: the CA that was in force stays. Pins CSRS-67.
func TestASuccessorKeepsTheCAInForce(t *testing.T) {
	const kept, waits = "cannot be used; the previous one stays in force", "cannot be used; its requests wait"
	expired := pki.CA(t, now.AddDate(-3, 0, 0))
	for name, tc := range map[string]struct {
		next    pki.Pair
		renamed bool
		later   time.Duration
		keeps   bool
		says    string
	}{
		"expired":                          {next: expired, keeps: true, says: kept},
		"another one that is valid":        {next: pki.CA(t, now)},
		"the files have other names":       {next: expired, renamed: true, says: waits},
		"the previous one has expired too": {next: expired, later: 2 * 365 * 24 * time.Hour, says: waits},
	} {
		t.Run(name, func(t *testing.T) {
			env, pair, valid := controllertest.New(t), files(t), pki.CA(t, now.Add(tc.later))
			validCert, validKey := valid.Write(t, t.TempDir())
			cfg := config{duration: time.Hour, authorities: [4]authority.Files{{Cert: validCert, Key: validKey}, 2: pair}}
			before, err := newController(env.Env, cfg)
			must.Succeed(t, err)
			began(t, before)
			first := before.signers[client].ca.inForce.Load()

			folder := filepath.Dir(pair.Cert)
			if tc.renamed {
				folder = t.TempDir()
			}
			certFile, keyFile := tc.next.Write(t, folder) // before the predecessor has read them
			cfg.authorities[2] = authority.Files{Cert: certFile, Key: keyFile}
			env.Clock.SetTime(now.Add(tc.later))
			env.Succeed(before.HandOver())
			c, err := newController(env.Env, cfg)
			must.Succeed(t, err)
			log := began(t, c)
			if got := c.signers[client].ca.inForce.Load(); (got == first) != tc.keeps {
				t.Errorf("the previous CA is in force: %v", got == first)
			}
			if got := strings.Count(log, "cannot be used"); (got == 1) != (tc.says != "") || !strings.Contains(log, tc.says) {
				t.Errorf("log: %s", log)
			}
			if left := c.HandOver()[cfg.authorities[2]]; left != c.signers[client].ca.inForce.Load() {
				t.Error("its successor would get another CA")
			}
		})
	}
}

// began begins a controller, and returns what it logs.
func began(t *testing.T, c *signingController) string {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	must.Succeed(t, c.begin(klog.NewContext(t.Context(), logger)))
	return logger.GetSink().(ktesting.Underlier).GetBuffer().String()
}

// expiredFiles makes a CA that has expired.
func expiredFiles(t testing.TB) authority.Files {
	certFile, keyFile := pki.CA(t, now.AddDate(-3, 0, 0)).Write(t, t.TempDir())
	return authority.Files{Cert: certFile, Key: keyFile}
}

// A kubelet creates its request again under the same name. Pins CSRS-63.
func TestTheBackoffOfADeletedRequestIsForgotten(t *testing.T) {
	env, c := start(t, one(files(t)))
	c.deleted(csr(t))
	if s := c.loop.Inspect(); s.Depth != 0 {
		t.Errorf("one that has not failed: %+v", s)
	}
	c.loop.AddRateLimited("csr")
	c.deleted(csr(t))
	env.Run(t, c)
	controllertest.Eventually(t, "it is forgotten", func() bool { return c.loop.Retries("csr") == 0 })
}

// A resync of requests that need nothing, however many, queues and copies nothing.
// Pins CSRS-57 and CSRS-63.
func TestWhatNeedsNothingCostsNothing(t *testing.T) {
	_, c := start(t, one(files(t)))
	done := csr(t, func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = []byte("x") })
	if got := testing.AllocsPerRun(100, func() { c.enqueue(reconcile.Backlog, done) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if depth := c.loop.Inspect().Depth; depth != 0 {
		t.Errorf("%d keys", depth)
	}
}
