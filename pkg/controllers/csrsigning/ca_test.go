package csrsigning

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

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
	// When something is said of a, b has been read: the first half of its change is not seen.
	f := follow(t, config{duration: time.Hour, authorities: [4]authority.Files{b, a}})
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

// expiredFiles makes a CA that has expired.
func expiredFiles(t testing.TB) authority.Files {
	certFile, keyFile := pki.CA(t, now.AddDate(-3, 0, 0)).Write(t, t.TempDir())
	return authority.Files{Cert: certFile, Key: keyFile}
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

// began begins a controller, and returns what it logs.
func began(t *testing.T, c *signingController) string {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	must.Succeed(t, c.begin(klog.NewContext(t.Context(), logger)))
	return logger.GetSink().(ktesting.Underlier).GetBuffer().String()
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
