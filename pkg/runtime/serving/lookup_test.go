package serving

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/fakeclient"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

// certified is a client certificate by a CA.
func certified(t *testing.T, by pki.Pair, name string) tls.Certificate {
	t.Helper()
	ca := must.Get(tls.X509KeyPair(by.Cert, by.Key))(t)
	key := pki.Key(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, pki.Parse(t, by.Cert), key.Public(), ca.PrivateKey))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// knownAs is what the answer to a request says of whom it is from.
func knownAs(t *testing.T, c v1beta1.Serving, with *tls.Certificate, header http.Header) (string, error) {
	t.Helper()
	from := client(t, func(tr *http.Transport) {
		if with != nil {
			tr.TLSClientConfig.Certificates = []tls.Certificate{*with}
		}
	})
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, urlOf(c, "/metrics"), nil))(t)
	request.Header = header
	response, err := from.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var status metav1.Status
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return "", err
	}
	var user string
	if known, _ := fmt.Sscanf(status.Message, "forbidden: User %q cannot get path", &user); known == 0 {
		return string(status.Reason), nil
	}
	return user, nil
}

// wantKnownAs waits for an answer.
func wantKnownAs(t *testing.T, c v1beta1.Serving, with *tls.Certificate, header http.Header, want string) {
	t.Helper()
	eventually(t, "the client is known as "+want, func() error {
		got, err := knownAs(t, c, with, header)
		if err == nil && got != want {
			err = errors.New("it is known as " + got)
		}
		return err
	})
}

// Files of CAs are followed, and one that cannot be used leaves the content before in use. Pins MGR-119.
func TestFilesOfClientCAsAreFollowed(t *testing.T) {
	s, c, folder, now := served(t, nil), quick(t), t.TempDir(), time.Now()
	ours, theirs := pki.CA(t, now), pki.CA(t, now)
	c.Authentication.ClientCAFile = filepath.Join(folder, "client.crt")
	c.Authentication.RequestHeader.ClientCAFile = filepath.Join(folder, "proxy.crt")
	write := func(name string, content []byte) { pki.WriteFile(t, filepath.Join(folder, name), content) }
	write("client.crt", slices.Concat(ours.Cert, theirs.Cert))
	write("proxy.crt", theirs.Cert)
	apply(t, s, c)
	jane, proxy := certified(t, ours, "jane"), certified(t, theirs, "proxy")
	joe, token := http.Header{"X-Remote-User": {"joe"}}, http.Header{"Authorization": {"Bearer x"}}
	wantKnownAs(t, c, &jane, nil, "jane")
	wantKnownAs(t, c, &jane, joe, "jane") // who is no proxy speaks for himself
	wantKnownAs(t, c, &jane, token, "jane")
	wantKnownAs(t, c, &proxy, joe, "joe")
	wantKnownAs(t, c, &proxy, nil, "proxy")
	wantKnownAs(t, c, nil, joe, "system:anonymous")

	for _, bad := range []string{"", "nothing", string(ours.Key)} {
		write("client.crt", []byte(bad))
		write("proxy.crt", []byte(bad))
		trusts := s.current.infos.trusts
		for _, ca := range []dynamiccertificates.CAContentProvider{trusts.client, trusts.proxy.CAContentProvider} {
			if err := ca.(dynamiccertificates.ControllerRunner).RunOnce(t.Context()); err == nil {
				t.Errorf("%s: %q is used", ca.Name(), bad)
			}
		}
		wantKnownAs(t, c, &jane, nil, "jane")
		wantKnownAs(t, c, &proxy, joe, "joe")
	}

	write("client.crt", theirs.Cert)
	write("proxy.crt", ours.Cert)
	wantKnownAs(t, c, &jane, nil, "Unauthorized")
	wantKnownAs(t, c, &proxy, joe, "proxy")
	wantKnownAs(t, c, &jane, joe, "joe")
}

// Clients are asked for a certificate without the names of the CAs that are trusted: with names, they would send none of
// a CA that is read later, and strangers need not know them.
func TestTheNamesOfClientCAsAreNotDisclosed(t *testing.T) {
	s, c, folder, now := served(t, nil), quick(t), t.TempDir(), time.Now()
	c.Authentication.ClientCAFile = filepath.Join(folder, "client.crt")
	c.Authentication.RequestHeader.ClientCAFile = filepath.Join(folder, "proxy.crt")
	pki.WriteFile(t, c.Authentication.ClientCAFile, pki.CA(t, now).Cert)
	pki.WriteFile(t, c.Authentication.RequestHeader.ClientCAFile, pki.CA(t, now).Cert)
	apply(t, s, c)
	asked, names := 0, 0
	from := client(t, func(tr *http.Transport) {
		tr.TLSClientConfig.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			asked, names = asked+1, names+len(info.AcceptableCAs)
			return &tls.Certificate{}, nil
		}
	})
	wantCode(t, from, urlOf(c, "/healthz"), http.StatusOK)
	if asked != 1 || names != 0 {
		t.Errorf("the client is asked for a certificate %d times, with %d names", asked, names)
	}
}

// cluster is a cluster that publishes whom it trusts.
func cluster(data map[string]string) (*fake.Clientset, *corev1.ConfigMap) {
	published := &corev1.ConfigMap{Data: data}
	published.Namespace, published.Name = "kube-system", "extension-apiserver-authentication"
	return fakeclient.New(), published
}

// Whom the cluster trusts is followed from when it says so. What it does not say any more stays as it was.
// Pins MGR-98 and MGR-120.
func TestWhomTheClusterTrustsIsFollowed(t *testing.T) {
	now := time.Now()
	ours, theirs, later := pki.CA(t, now), pki.CA(t, now), pki.CA(t, now)
	lookup, published := cluster(map[string]string{
		"client-ca-file": string(ours.Cert), "requestheader-client-ca-file": string(theirs.Cert),
		"requestheader-username-headers": `["X-User"]`, "requestheader-uid-headers": `["X-Uid"]`, "requestheader-group-headers": `["X-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Extra-"]`, "requestheader-allowed-names": `["front-proxy"]`,
	})
	in := trusted{}
	in.client = must.Get(clientCA(v1beta1.Authentication{}, lookup))(t)
	in.proxy = must.Get(frontProxy(v1beta1.Authentication{}, lookup))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, provider := range []any{in.client, in.proxy.CAContentProvider} {
		go provider.(dynamiccertificates.ControllerRunner).Run(ctx, 1)
	}
	if in.knowsClients() || in.knowsProxy() {
		t.Fatal("somebody is trusted before the cluster says so")
	}
	// So that what changes is an event for each of them.
	eventually(t, "three informers watch", func() error {
		watches := slices.DeleteFunc(lookup.Actions(), func(a clienttesting.Action) bool { return !a.Matches("watch", "configmaps") })
		if len(watches) < 3 {
			return fmt.Errorf("%d do", len(watches))
		}
		return nil
	})
	configMaps := lookup.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	must.Get(configMaps.Create(ctx, published, metav1.CreateOptions{}))(t)
	trusts := func(client, proxy pki.Pair) error {
		clients, proxies := in.client.CurrentCABundleContent(), in.proxy.CAContentProvider.CurrentCABundleContent()
		if !bytes.Equal(clients, client.Cert) || !bytes.Equal(proxies, proxy.Cert) || !in.knowsProxy() {
			return errors.New("the CAs are others")
		}
		return nil
	}
	eventually(t, "the CAs are those of the cluster", func() error { return trusts(ours, theirs) })
	for want, got := range map[string][]string{
		"X-User": in.proxy.UsernameHeaders.Value(), "X-Uid": in.proxy.UIDHeaders.Value(), "X-Group": in.proxy.GroupHeaders.Value(),
		"X-Extra-": in.proxy.ExtraHeaderPrefixes.Value(), "front-proxy": in.proxy.AllowedClientNames.Value(),
	} {
		if !slices.Equal(got, []string{want}) {
			t.Errorf("got %q, want %s", got, want)
		}
	}
	delete(published.Data, "client-ca-file")
	published.Data["requestheader-client-ca-file"] = string(later.Cert)
	lines := logAt(t, "0")
	must.Get(configMaps.Update(ctx, published, metav1.UpdateOptions{}))(t)
	eventually(t, "the client CA is found missing", func() error {
		if lines.lineWith(`missing content for CA bundle \"client-ca::`) == "" {
			return errors.New("it is not")
		}
		return nil
	})
	eventually(t, "only the CA of the proxy is another one", func() error { return trusts(ours, later) })
}

// Explicit files are used instead of what the cluster says, and without a cluster there is nobody to ask.
// Pins MGR-98.
func TestWhereTrustComesFrom(t *testing.T) {
	lookup, _ := cluster(nil)
	file := filepath.Join(t.TempDir(), "ca.crt")
	ca := pki.CA(t, time.Now())
	pki.WriteFile(t, file, ca.Cert)
	c := v1beta1.NewDefault().Serving.Authentication
	c.ClientCAFile, c.RequestHeader.ClientCAFile = file, file
	client, proxy := must.Get(clientCA(c, lookup))(t), must.Get(frontProxy(c, lookup))(t)
	for _, provider := range []dynamiccertificates.CAContentProvider{client, proxy.CAContentProvider} {
		if got := string(provider.CurrentCABundleContent()); got != string(ca.Cert) {
			t.Errorf("%s is %q", provider.Name(), got)
		}
	}
	if got := proxy.UsernameHeaders.Value(); !slices.Equal(got, []string{"x-remote-user"}) {
		t.Errorf("the proxy names users in %q", got)
	}
	if got := lookup.Actions(); len(got) > 0 {
		t.Errorf("requests: %v", got)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	somewhere := kubeconfigFor(t, "http://127.0.0.1:1")
	for _, test := range []struct {
		kubeconfig string
		skip, asks bool
	}{{"", false, false}, {"", true, false}, {somewhere, true, false}, {somewhere, false, true}} {
		c := v1beta1.NewDefault().Serving.Authentication
		c.Kubeconfig, c.SkipLookup = test.kubeconfig, &test.skip
		in := infos{serving: &server.SecureServingInfo{}, reviews: newReviews()}
		must.Succeed(t, in.authenticateBy(c))
		if (in.trusts.client != nil) != test.asks || (in.trusts.proxy != nil) != test.asks || (in.serving.ClientCA != nil) != test.asks {
			t.Errorf("kubeconfig %q, skip %v: whom the cluster trusts is looked up: %v", test.kubeconfig, test.skip, !test.asks)
		}
		in.reviews.close()
	}
}
