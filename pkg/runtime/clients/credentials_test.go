package clients

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"kcmd.dev/test/must"
)

// Of the access of the process, service accounts get everything but who it is. Pins MGR-44.
func TestAccountsHaveNoCredentialsOfTheProcess(t *testing.T) {
	s, a := newServer(t), newAccountServer()
	s.TLS.ClientAuth = tls.RequestClientCert
	var mu sync.Mutex
	var wrong []string
	acted, asked := 0, 0
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		asProcess := strings.HasSuffix(r.URL.Path, "/token")
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/prefix")
		certified, impersonates := len(r.TLS.PeerCertificates) > 0, r.Header.Get("Impersonate-User") != ""
		mu.Lock()
		switch {
		case asProcess && certified && impersonates && r.Header.Get("Authorization") == "Bearer own-token":
			asked++
		case !asProcess && !certified && !impersonates && r.Header.Get("Authorization") == "Bearer job-controller-1":
			acted++
		default:
			wrong = append(wrong, r.Method+" "+r.URL.Path)
		}
		if r.TLS.ServerName != "example.com" || r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/vnd.kubernetes.protobuf" {
			wrong = append(wrong, "to "+r.TLS.ServerName+" in "+r.Header.Get("Content-Type"))
		}
		mu.Unlock()
		a.answer(w, r)
	})
	certificate, key, err := cert.GenerateSelfSignedCertKey("process", nil, nil)
	must.Succeed(t, err)
	mustWrite(t, s.clients(func(o *Options) {
		o.ServiceAccounts = true
		o.Base.Host += "/prefix"
		o.Base.ServerName = "example.com"
		o.Base.CertData, o.Base.KeyData = certificate, key
		o.Base.Impersonate = rest.ImpersonationConfig{UserName: "other"}
	}))
	mu.Lock()
	defer mu.Unlock()
	if acted != 1 || asked != 1 || len(wrong) > 0 {
		t.Errorf("%d requests are those of the account and %d of the process, and of neither: %q", acted, asked, wrong)
	}
}

// The server that the configuration names goes before the one in the kubeconfig. Without either, it is that of the pod,
// if the process runs in one. Pins MGR-28.
func TestWhereTheAPIServerIsFound(t *testing.T) {
	path := t.TempDir() + "/kubeconfig"
	must.Succeed(t, os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\n"+
		"contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"+
		"clusters: [{name: k, cluster: {server: 'https://kubeconfig.test'}}]\n"), 0o600))
	for _, tc := range []struct {
		from        Source
		host, token string
	}{
		{Source{Kubeconfig: path}, "https://kubeconfig.test", "t"},
		{Source{Kubeconfig: path, Server: "https://named.test"}, "https://named.test", "t"},
		{Source{Server: "https://named.test"}, "https://named.test", ""},
	} {
		config := must.Get(loadConfig(tc.from))(t)
		if config.Host != tc.host || config.BearerToken != tc.token || !config.DisableCompression {
			t.Errorf("%+v leads to %s with token %q, compressed: %t", tc.from, config.Host, config.BearerToken, !config.DisableCompression)
		}
	}

	if _, err := os.Stat(podTokenFile); err == nil {
		t.Skip("this is a pod")
	}
	t.Cleanup(func() { klog.LogToStderr(true) }) // to restore all of its state would race with whoever has logged
	var log bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	t.Setenv("KUBERNETES_SERVICE_HOST", "pod.test")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	t.Setenv("KUBERNETES_MASTER", "")
	_, err := loadConfig(Source{})
	klog.Flush()
	if err == nil || !strings.Contains(log.String(), podTokenFile) {
		t.Errorf("got %v; logged is %q", err, log.String())
	}
}

// A warning of the API server is no concern of who reads the log. Pins EP-5 and MGR-5.
func TestWarningsAreDropped(t *testing.T) {
	s := newServer(t)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Warning", `299 - "this is deprecated"`)
		emptyObject(w, r)
	})
	t.Cleanup(func() { klog.LogToStderr(true) }) // to restore all of its state would race with whoever has logged
	var log bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	path := t.TempDir() + "/kubeconfig"
	must.Succeed(t, os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\n"+
		"contexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k, cluster: {server: 'https://kubeconfig.test'}}]\n"), 0o600))
	loaded := must.Get(loadConfig(Source{Kubeconfig: path}))(t)
	c := s.clients(func(o *Options) { o.Base.WarningHandler = loaded.WarningHandler })
	set := must.Get(c.For(Identity{Name: "x"}, nil))(t)
	further := must.Get(set.again())(t)
	must.Get(set.Kubernetes.CoreV1().ConfigMaps("ns").Get(t.Context(), "x", metav1.GetOptions{}))(t)
	must.Get(further.CoreV1().ConfigMaps("ns").Get(t.Context(), "x", metav1.GetOptions{}))(t)
	klog.Flush()
	if log.Len() > 0 {
		t.Errorf("logged is %q", log.String())
	}
}
