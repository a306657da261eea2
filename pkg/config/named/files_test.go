package named_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kcmd.dev/pkg/config"
	"kcmd.dev/test/pki"
)

// header is what every good file starts with; the rest starts in line 3.
const header = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"

// writeFiles makes, in a new working directory, the files that the tests name:
// two key pairs, a key of the wrong kind, and kubeconfigs.
func writeFiles(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"one", "two"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
		certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, name+".crt", "CERTIFICATE", certificate)
		writeKey(t, name+".key", key)
	}
	for name, edits := range map[string][]func(*x509.Certificate){
		"ca":      nil,
		"expired": {func(c *x509.Certificate) { c.NotAfter = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC) }},
	} {
		pair := pki.CA(t, time.Now(), edits...)
		write(t, name+".crt", string(pair.Cert))
		write(t, name+".key", string(pair.Key))
		write(t, "both.pem", string(pair.Cert)+string(pair.Key))
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	writeKey(t, "ed25519.key", other)
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	writeKey(t, "p224.key", small)
	write(t, "recycler.yaml", "apiVersion: v1\nkind: Pod\nspec: {volumes: [{name: v, emptyDir: {}}], containers: []}\n")
	write(t, "novolume.yaml", "apiVersion: v1\nkind: Pod\nspec: {containers: []}\n")
	write(t, "nopod.yaml", "apiVersion: v1\nkind: Secret\n")
	write(t, "labels.yaml", "\"a,b\": c,d\n\"a,e\": f\n")
	write(t, "badlabels.yaml", "allowListMapping: {a: b}\n")
	write(t, "badkey.yaml", "a: b\n")
	write(t, "empty", "")
	for directory, pair := range map[string][2]string{
		"made": {"one.crt", "one.key"}, "half": {"one.crt", ""}, "mixed": {"one.crt", "two.key"}, "old": {"expired.crt", "expired.key"},
	} {
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		for n, ending := range []string{".crt", ".key"} {
			if pair[n] == "" {
				continue
			}
			content, err := os.ReadFile(pair[n])
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(directory, "kube-controller-manager"+ending), string(content))
		}
	}
	write(t, "text", "hello\n")
	write(t, "bare.conf", "apiVersion: v1\nkind: Config\n")
	kubeconfig := `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: https://127.0.0.1:6443, certificate-authority: CA}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	write(t, "good.conf", strings.Replace(kubeconfig, "CA", "one.crt", 1))
	write(t, "noserver.conf", strings.NewReplacer("CA", "one.crt", "server: https://127.0.0.1:6443, ", "").Replace(kubeconfig))
	write(t, "noca.conf", strings.Replace(kubeconfig, "CA", "text", 1))
	write(t, "notoken.conf", strings.NewReplacer("CA", "one.crt", "token: t", "tokenFile: blank").Replace(kubeconfig))
	write(t, "blank", "\n")
	for name, user := range map[string]string{
		"certificate": "client-certificate: one.crt, client-key: one.key", "expired": "client-certificate: expired.crt, client-key: expired.key",
		"unpaired": "client-certificate: one.crt, client-key: two.key",
	} {
		write(t, name+".conf", strings.NewReplacer("CA", "one.crt", "token: t", user).Replace(kubeconfig))
	}
	write(t, "unverified.conf", strings.Replace(kubeconfig, "certificate-authority: CA", "certificate-authority: one.crt, insecure-skip-tls-verify: true", 1))
	write(t, "nourl.conf", strings.NewReplacer("CA", "one.crt", "https://127.0.0.1:6443", "'https://127.0.0.1 :6443'").Replace(kubeconfig))
	write(t, "noplugin.conf", strings.NewReplacer("CA", "one.crt", "token: t", "auth-provider: {name: gone}").Replace(kubeconfig))
	write(t, "bad.conf", strings.Replace(kubeconfig, "CA", "gone.crt", 1))
	if err := syscall.Mkfifo("pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, "pipedca.conf", strings.Replace(kubeconfig, "CA", "pipe", 1))
	write(t, "pipedtoken.conf", strings.NewReplacer("CA", "one.crt", "token: t", "tokenFile: pipe").Replace(kubeconfig))
}

func writeKey(t *testing.T, name string, key any) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, name, "PRIVATE KEY", der)
}

func writePEM(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	write(t, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCheckFiles(t *testing.T) {
	writeFiles(t)
	directory, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, text, want string
	}{
		{"none named", "", ""},
		{"all good", "clientConnection: {kubeconfig: good.conf}\nserviceAccounts: {privateKeyFile: one.key, rootCAFile: two.crt}\n" +
			"serving: {tls: {certFile: one.crt, privateKeyFile: one.key}, authentication: {kubeconfig: good.conf, clientCAFile: one.crt, " +
			"requestHeader: {clientCAFile: two.crt}}, authorization: {kubeconfig: good.conf}}\n", ""},
		{"missing", "clientConnection: {kubeconfig: gone.conf}\n", "f.yaml:3:32: clientConnection.kubeconfig: the file gone.conf does not exist"},
		{"directory", "serviceAccounts: {rootCAFile: .}\n", "f.yaml:3:31: serviceAccounts.rootCAFile: . is not a file"},
		{"empty", "serviceAccounts: {rootCAFile: empty}\n", "f.yaml:3:31: serviceAccounts.rootCAFile: the file empty is empty"},
		{"kubeconfig without content", "clientConnection: {kubeconfig: bare.conf}\n", "f.yaml:3:32: clientConnection.kubeconfig: bare.conf is not a valid kubeconfig: " +
			"invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"},
		// To open a pipe would block.
		{"kubeconfig with a CA from a pipe", "clientConnection: {kubeconfig: pipedca.conf}\n", "f.yaml:3:32: clientConnection.kubeconfig: " +
			"pipedca.conf is not a valid kubeconfig: DIR/pipe is not a file"},
		{"kubeconfig with a token from a pipe", "clientConnection: {kubeconfig: pipedtoken.conf}\n", "f.yaml:3:32: clientConnection.kubeconfig: " +
			"pipedtoken.conf is not a valid kubeconfig: DIR/pipe is not a file"},
		{"kubeconfig that names a missing file", "serving: {authorization: {kubeconfig: bad.conf}}\n",
			"f.yaml:3:39: serving.authorization.kubeconfig: bad.conf is not a valid kubeconfig: invalid configuration: " +
				"unable to read certificate-authority DIR/gone.crt for c due to open DIR/gone.crt: no such file or directory"},
		{"kubeconfig with a client certificate", "clientConnection: {kubeconfig: certificate.conf}\n", ""},
		// The process does not start with any of these.
		{"kubeconfig with a client certificate that has expired", "clientConnection: {kubeconfig: expired.conf}\n",
			"f.yaml:3:32: clientConnection.kubeconfig: expired.conf cannot be used: the client certificate expired at 2020-01-02T03:04:05Z"},
		{"kubeconfig with the key of another certificate", "clientConnection: {kubeconfig: unpaired.conf}\n",
			"f.yaml:3:32: clientConnection.kubeconfig: unpaired.conf cannot be used: the client certificate and its key do not match: tls: private key does not match public key"},
		{"kubeconfig with an empty token file", "clientConnection: {kubeconfig: notoken.conf}\n",
			"f.yaml:3:32: clientConnection.kubeconfig: notoken.conf cannot be used: the token file DIR/blank is empty"},
		{"kubeconfig whose CA is none", "clientConnection: {kubeconfig: noca.conf}\n",
			"f.yaml:3:32: clientConnection.kubeconfig: noca.conf cannot be used: the CA of the API server is no certificate in PEM format: data does not contain any valid RSA or ECDSA certificates"},
		{"MGR-245: kubeconfig with a CA that is not to be used", "clientConnection: {kubeconfig: unverified.conf}\n",
			"f.yaml:3:32: clientConnection.kubeconfig: unverified.conf cannot be used: specifying a root certificates file with the insecure flag is not allowed"},
		{"MGR-245: kubeconfig whose server is no URL", "clientConnection: {kubeconfig: nourl.conf}\n",
			"f.yaml:3:32: clientConnection.kubeconfig: nourl.conf cannot be used: host must be a URL or a host:port pair: \"https://127.0.0.1 :6443\""},
		{"MGR-245: kubeconfig with an unknown plugin", "clientConnection: {kubeconfig: noplugin.conf}\n",
			"f.yaml:3:32: clientConnection.kubeconfig: noplugin.conf cannot be used: no Auth Provider found for name \"gone\""},
		{"MGR-245: kubeconfig of the endpoint whose CA is none", "serving: {authentication: {kubeconfig: noca.conf}}\n",
			"f.yaml:3:40: serving.authentication.kubeconfig: noca.conf cannot be used: unable to load root certificates: unable to parse bytes as PEM block"},
		{"MGR-245: kubeconfig of the endpoint with a CA that is not to be used", "serving: {authorization: {kubeconfig: unverified.conf}}\n",
			"f.yaml:3:39: serving.authorization.kubeconfig: unverified.conf cannot be used: specifying a root certificates file with the insecure flag is not allowed"},
		{"kubeconfig without a server", "clientConnection: {kubeconfig: noserver.conf}\n",
			"f.yaml:3:32: clientConnection.kubeconfig: noserver.conf is not a valid kubeconfig: invalid configuration: no server found for cluster \"c\""},
		{"kubeconfig whose server the configuration sets", "clientConnection: {kubeconfig: noserver.conf, server: \"https://127.0.0.1:6443\"}\n", ""},
		{"kubeconfig of the endpoint without a server", "clientConnection: {server: \"https://127.0.0.1:6443\"}\nserving: {authentication: {kubeconfig: noserver.conf}}\n",
			"f.yaml:4:40: serving.authentication.kubeconfig: noserver.conf is not a valid kubeconfig: invalid configuration: no server found for cluster \"c\""},
		{"no key", "serviceAccounts: {privateKeyFile: one.crt}\n",
			"f.yaml:3:35: serviceAccounts.privateKeyFile: one.crt contains no private key in PEM format: data does not contain a valid RSA or ECDSA private key"},
		{"key that signs no tokens", "serviceAccounts: {privateKeyFile: ed25519.key}\n",
			"f.yaml:3:35: serviceAccounts.privateKeyFile: ed25519.key contains a ed25519.PrivateKey: the key must be an RSA or ECDSA key"},
		{"key of a curve that tokens are not signed with", "serviceAccounts: {privateKeyFile: p224.key}\n",
			"f.yaml:3:35: serviceAccounts.privateKeyFile: p224.key contains an ECDSA key of the curve P-224: the curve must be P-256, P-384 or P-521"},
		{"no certificates", "serviceAccounts: {rootCAFile: one.key}\n",
			"f.yaml:3:31: serviceAccounts.rootCAFile: one.key contains no certificates in PEM format: data does not contain any valid RSA or ECDSA certificates"},
		{"bundle with a key", "serviceAccounts: {rootCAFile: both.pem}\n",
			"f.yaml:3:31: serviceAccounts.rootCAFile: both.pem cannot be published: it contains a private key, and everything in it would be published to all pods"},
		{"pair that does not belong together", "serving: {tls: {certFile: one.crt, privateKeyFile: two.key}}\n",
			"f.yaml:3:27: serving.tls.certFile: one.crt and two.key do not match: tls: private key does not match public key"},
		{"serving certificates that have expired", "serving: {tls: {certFile: expired.crt, privateKeyFile: expired.key, sniCertificates: [{certFile: expired.crt, privateKeyFile: expired.key}]}}\n",
			"f.yaml:3:27: warning: serving.tls.certFile: the certificate in expired.crt expired at 2020-01-02T03:04:05Z: clients that verify it cannot connect\n" +
				"f.yaml:3:98: warning: serving.tls.sniCertificates[0].certFile: the certificate in expired.crt expired at 2020-01-02T03:04:05Z: clients that verify it cannot connect"},
		{"both of a pair", "serving: {tls: {certFile: gone.crt, privateKeyFile: text}}\n",
			"f.yaml:3:27: serving.tls.certFile: the file gone.crt does not exist\n" +
				"f.yaml:3:53: serving.tls.privateKeyFile: text contains no private key in PEM format: data does not contain a valid RSA or ECDSA private key"},
		{"file as directory", "serving: {tls: {certDirectory: text}}\n", "f.yaml:3:32: serving.tls.certDirectory: text is not a directory"},
		{"directory to be made", "serving: {tls: {certDirectory: new}}\n", ""},
		{"directory with a pair", "serving: {tls: {certDirectory: made}}\n", ""},
		{"MGR-247: directory with half of a pair", "serving: {tls: {certDirectory: half}}\n", "f.yaml:3:32: serving.tls.certDirectory: " +
			"a certificate and its key must be there together: the file half/kube-controller-manager.key does not exist"},
		{"MGR-247: directory with a pair that does not belong together", "serving: {tls: {certDirectory: mixed}}\n", "f.yaml:3:32: serving.tls.certDirectory: " +
			"mixed/kube-controller-manager.crt and mixed/kube-controller-manager.key do not match: tls: private key does not match public key"},
		{"MGR-247: directory with a pair that has expired", "serving: {tls: {certDirectory: old}}\n", "f.yaml:3:32: warning: serving.tls.certDirectory: " +
			"the certificate in old/kube-controller-manager.crt expired at 2020-01-02T03:04:05Z: clients that verify it cannot connect"},
		{"directory that nothing reads", "serving: {tls: {certFile: one.crt, privateKeyFile: one.key, certDirectory: mixed}}\n", ""},
		{"certificates for host names", "serving: {tls: {sniCertificates: [{certFile: one.crt, privateKeyFile: one.key}, {certFile: one.crt, privateKeyFile: two.key}]}}\n",
			"f.yaml:3:92: serving.tls.sniCertificates[1].certFile: one.crt and two.key do not match: tls: private key does not match public key"},
		{"metric labels", "metrics: {allowListMappingManifest: labels.yaml}\n", ""},
		{"metric labels in another form", "metrics: {allowListMappingManifest: badlabels.yaml}\n",
			"f.yaml:3:37: metrics.allowListMappingManifest: badlabels.yaml contains no map of \"metric,label\" to \"value,value\": " +
				"error unmarshaling JSON: while decoding JSON: json: cannot unmarshal object into Go value of type string"},
		{"metric labels with a bad key", "metrics: {allowListMappingManifest: badkey.yaml}\n",
			"f.yaml:3:37: metrics.allowListMappingManifest: badkey.yaml has the key \"a\": it must be the name of a metric, a comma and the name of a label"},
		{"signing CAs", signersText("{certFile: ca.crt, privateKeyFile: ca.key}", "{certFile: ca.crt, privateKeyFile: ca.key}"), ""},
		{"CSRS-59: signing CAs that are none", signersText("{certFile: one.crt, privateKeyFile: one.key}", "{certFile: expired.crt, privateKeyFile: expired.key}"),
			"f.yaml:5:32: controllers.certificatesigningrequest-signing-controller.kubeletServing.certFile: error reading CA cert file \"one.crt\": the certificate is not that of a CA\n" +
				"f.yaml:6:31: controllers.certificatesigningrequest-signing-controller.legacyUnknown.certFile: error reading CA cert file \"expired.crt\": the certificate has expired: NotAfter=2020-01-02 03:04:05 +0000 UTC"},
		{"MGR-224: files that nothing reads", "serviceAccounts: {privateKeyFile: gone.key, rootCAFile: gone.crt}\ncontrollerDefaults: {enabled: false}\n" +
			signersText("{certFile: gone.crt, privateKeyFile: gone.key}", "{certFile: one.crt, privateKeyFile: two.key}") +
			"  persistentvolume-binder-controller: {recycler: {nfs: {podTemplateFile: gone.yaml}, hostPath: {podTemplateFile: nopod.yaml}}}\n", ""},
		{"MGR-224: a CA that a single controller publishes", "serviceAccounts: {privateKeyFile: gone.key, rootCAFile: gone.crt}\ncontrollerDefaults: {enabled: false}\n" +
			"controllers: {root-ca-certificate-publisher-controller: {enabled: true}}\n", "f.yaml:3:57: serviceAccounts.rootCAFile: the file gone.crt does not exist"},
		{"MGR-224: the key of the one controller that runs", "serviceAccounts: {privateKeyFile: gone.key, rootCAFile: one.crt}\ncontrollerDefaults: {enabled: false}\n" +
			"controllers: {serviceaccount-token-controller: {enabled: true}}\n", "f.yaml:3:35: serviceAccounts.privateKeyFile: the file gone.key does not exist"},
		{"signing CAs that do not match", signersText("{certFile: one.crt, privateKeyFile: two.key}", "{certFile: gone.crt, privateKeyFile: text}"),
			"f.yaml:5:32: controllers.certificatesigningrequest-signing-controller.kubeletServing.certFile: one.crt and two.key do not match: tls: private key does not match public key\n" +
				"f.yaml:6:31: controllers.certificatesigningrequest-signing-controller.legacyUnknown.certFile: the file gone.crt does not exist\n" +
				"f.yaml:6:57: controllers.certificatesigningrequest-signing-controller.legacyUnknown.privateKeyFile: text contains no private key in PEM format: data does not contain a valid RSA or ECDSA private key"},
		{"recycler", recyclerText("recycler.yaml", "recycler.yaml"), ""},
		{"recycler without pod or volume", recyclerText("nopod.yaml", "novolume.yaml"),
			"f.yaml:3:86: controllers.persistentvolume-binder-controller.recycler.nfs.podTemplateFile: nopod.yaml contains \"v1\", kind \"Secret\": it must be a pod (v1, Pod)\n" +
				"f.yaml:3:127: controllers.persistentvolume-binder-controller.recycler.hostPath.podTemplateFile: the pod in novolume.yaml has no volume: its first volume is replaced by the volume to be emptied"},
		{"serving off", "serving: {port: 0, authentication: {clientCAFile: gone.crt}}\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc, err := config.Load("f.yaml", []byte(header+test.text))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(doc.CheckFiles().Error(), directory+string(filepath.Separator), "DIR/")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// What an edit newly names is held against it, what was in force before is not.
func TestCheckEdit(t *testing.T) {
	writeFiles(t)
	const (
		stays  = "; its previous content stays in use"
		gone   = "the file gone.crt does not exist"
		unpair = "one.crt and two.key do not match: tls: private key does not match public key"
	)
	tests := []struct {
		name, old, new, want string
		bad                  []string
	}{
		{"nothing is bad", "serviceAccounts: {rootCAFile: one.crt}\n", "serviceAccounts: {rootCAFile: one.crt}\n", "", nil},
		{"turned bad", "serviceAccounts: {rootCAFile: gone.crt}\n", "serviceAccounts: {rootCAFile: gone.crt}\nresync: {minPeriod: 1h}\n",
			"f.yaml:3:31: warning: serviceAccounts.rootCAFile: " + gone + stays, []string{"gone.crt"}},
		{"named anew", "serviceAccounts: {rootCAFile: one.crt}\n", "serviceAccounts: {rootCAFile: gone.crt}\n",
			"f.yaml:3:31: serviceAccounts.rootCAFile: " + gone, nil},
		{"named in another field", "serviceAccounts: {rootCAFile: gone.crt}\n", "serving: {authentication: {clientCAFile: gone.crt}}\n",
			"f.yaml:3:42: serving.authentication.clientCAFile: " + gone, nil},
		{"in the old and in another field", "serviceAccounts: {rootCAFile: gone.crt}\n",
			"serviceAccounts: {rootCAFile: gone.crt}\nserving: {authentication: {clientCAFile: gone.crt}}\n",
			"f.yaml:3:31: warning: serviceAccounts.rootCAFile: " + gone + stays + "\n" +
				"f.yaml:4:42: serving.authentication.clientCAFile: " + gone, []string{"gone.crt"}},
		{"read by nothing before", "serving: {port: 0, authentication: {clientCAFile: gone.crt}}\n", "serving: {authentication: {clientCAFile: gone.crt}}\n",
			"f.yaml:3:42: serving.authentication.clientCAFile: " + gone, nil},
		{"MGR-224: read by a disabled controller before", "controllerDefaults: {enabled: false}\nserviceAccounts: {rootCAFile: gone.crt}\n",
			"serviceAccounts: {rootCAFile: gone.crt}\n", "f.yaml:3:31: serviceAccounts.rootCAFile: " + gone, nil},
		{"a pair that no longer belongs together", "serving: {tls: {certFile: one.crt, privateKeyFile: two.key}}\n", "serving: {tls: {certFile: one.crt, privateKeyFile: two.key}}\n",
			"f.yaml:3:27: warning: serving.tls.certFile: " + unpair + stays, []string{"one.crt", "two.key"}},
		{"another key for the same certificate", "serving: {tls: {certFile: one.crt, privateKeyFile: one.key}}\n", "serving: {tls: {certFile: one.crt, privateKeyFile: two.key}}\n",
			"f.yaml:3:27: serving.tls.certFile: " + unpair, nil},
		{"another certificate for the same key", "serving: {tls: {certFile: two.crt, privateKeyFile: two.key}}\n", "serving: {tls: {certFile: one.crt, privateKeyFile: two.key}}\n",
			"f.yaml:3:27: serving.tls.certFile: " + unpair, nil},
		{"a directory that became a file", "serving: {tls: {certDirectory: text}}\n", "serving: {tls: {certDirectory: text}}\n",
			"f.yaml:3:32: warning: serving.tls.certDirectory: text is not a directory" + stays, []string{"text"}},
		{"MGR-247: a pair in a directory that no longer belongs together", "serving: {tls: {certDirectory: mixed}}\n", "serving: {tls: {certDirectory: mixed}, profiling: false}\n",
			"f.yaml:3:32: warning: serving.tls.certDirectory: mixed/kube-controller-manager.crt and mixed/kube-controller-manager.key do not match: " +
				"tls: private key does not match public key" + stays, []string{"mixed"}},
		{"another directory", "serving: {tls: {certDirectory: new}}\n", "serving: {tls: {certDirectory: text}}\n",
			"f.yaml:3:32: serving.tls.certDirectory: text is not a directory", nil},
		{"a certificate that moves in its list", "serving: {tls: {sniCertificates: [{certFile: gone.crt, privateKeyFile: one.key}]}}\n",
			"serving: {tls: {sniCertificates: [{certFile: two.crt, privateKeyFile: two.key}, {certFile: gone.crt, privateKeyFile: one.key}]}}\n",
			"f.yaml:3:92: serving.tls.sniCertificates[1].certFile: " + gone, nil},
		{"the kubeconfig", "clientConnection: {kubeconfig: bare.conf}\n", "clientConnection: {kubeconfig: bare.conf, qps: 7}\n",
			"f.yaml:3:32: warning: clientConnection.kubeconfig: bare.conf is not a valid kubeconfig: " +
				"invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable" + stays, []string{"bare.conf"}},
		{"a client certificate that has expired since", "clientConnection: {kubeconfig: expired.conf}\n", "clientConnection: {kubeconfig: expired.conf, qps: 7}\n",
			"f.yaml:3:32: warning: clientConnection.kubeconfig: expired.conf cannot be used: the client certificate expired at 2020-01-02T03:04:05Z" + stays, []string{"expired.conf"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			documents := map[string]*config.Document{}
			for _, text := range []string{test.old, test.new} {
				d, err := config.Load("f.yaml", []byte(header+text))
				if err != nil {
					t.Fatal(err)
				}
				documents[text] = d
			}
			problems, bad := documents[test.new].CheckEdit(documents[test.old].Config)
			if diff := cmp.Diff(test.want, problems.Error()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.bad, bad); diff != "" {
				t.Errorf("bad files (-want +got):\n%s", diff)
			}
		})
	}
}

func signersText(serving, legacy string) string {
	return "controllers:\n  certificatesigningrequest-signing-controller:\n    kubeletServing: " + serving + "\n    legacyUnknown: " + legacy + "\n"
}

func recyclerText(nfs, hostPath string) string {
	return "controllers: {persistentvolume-binder-controller: {recycler: {nfs: {podTemplateFile: " + nfs + "}, hostPath: {podTemplateFile: " + hostPath + "}}}}\n"
}

// A CA that has expired since keeps no process from starting. Pins CSRS-59.
func TestAnExpiredCAIsAWarningAtTheStart(t *testing.T) {
	writeFiles(t)
	doc, err := config.Load("f.yaml", []byte(header+signersText("{certFile: one.crt, privateKeyFile: two.key}", "{certFile: expired.crt, privateKeyFile: expired.key}")))
	if err != nil {
		t.Fatal(err)
	}
	const block = "controllers.certificatesigningrequest-signing-controller."
	want := "f.yaml:5:32: " + block + "kubeletServing.certFile: one.crt and two.key do not match: tls: private key does not match public key\n" +
		"f.yaml:6:31: warning: " + block + "legacyUnknown.certFile: error reading CA cert file \"expired.crt\": the certificate has expired: NotAfter=2020-01-02 03:04:05 +0000 UTC"
	if diff := cmp.Diff(want, doc.CheckStart().Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
