package csrsigning

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	pkgconfig "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

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
