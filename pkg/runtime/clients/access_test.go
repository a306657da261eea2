package clients

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kcmd.dev/pkg/config"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pod"
)

// kubeconfig is a folder with a kubeconfig and the files it names.
type kubeconfig struct {
	t      *testing.T
	folder string
}

func newKubeconfig(t *testing.T, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) *kubeconfig {
	t.Helper()
	k := &kubeconfig{t: t, folder: t.TempDir()}
	cluster := &clientcmdapi.Cluster{Server: "https://one.test:6443"}
	user := &clientcmdapi.AuthInfo{}
	change(cluster, user)
	written := clientcmdapi.NewConfig()
	written.Clusters["k"], written.AuthInfos["u"] = cluster, user
	written.Contexts["c"], written.CurrentContext = &clientcmdapi.Context{Cluster: "k", AuthInfo: "u"}, "c"
	if err := clientcmd.WriteToFile(*written, k.path("kubeconfig")); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *kubeconfig) path(name string) string { return filepath.Join(k.folder, name) }

func (k *kubeconfig) put(name string, content []byte) {
	k.t.Helper()
	if err := os.WriteFile(k.path(name), content, 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kubeconfig) load() (*Access, error) {
	return LoadAccess(Source{Kubeconfig: k.path("kubeconfig")}, time.Now())
}

func byFiles(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
	c.CertificateAuthority, u.ClientCertificate, u.ClientKey = "ca.crt", "client.crt", "client.key"
}

// Pins MGR-190, CTB-36 and SAT-85.
func TestFilesOfAKubeconfigAreRead(t *testing.T) {
	k := newKubeconfig(t, byFiles)
	ca, _ := pair(t, "ca", nil, time.Now().Add(time.Hour))
	certificate, key := pair(t, "me", nil, time.Now().Add(time.Hour))
	k.put("ca.crt", ca)
	k.put("client.crt", certificate)
	k.put("client.key", key)
	a, err := k.load()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{k.path("kubeconfig"), k.path("ca.crt"), k.path("client.crt"), k.path("client.key")}; !slices.Equal(a.Files, want) {
		t.Errorf("files %q, want %q", a.Files, want)
	}
	c := a.Config
	if string(c.CAData) != string(ca) || string(c.CertData) != string(certificate) || string(c.KeyData) != string(key) || c.CAFile+c.CertFile+c.KeyFile != "" {
		t.Error("the contents of the files are not in the configuration")
	}
}

func TestUnusableFilesAreRefused(t *testing.T) {
	certificate, key := pair(t, "me", nil, time.Now().Add(time.Hour))
	old, oldKey := pair(t, "me", nil, time.Now().Add(-time.Minute))
	token := func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.TokenFile = "token" }
	for name, try := range map[string]struct {
		shape func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)
		files map[string]string
		says  string
	}{
		"missing key":          {byFiles, map[string]string{"ca.crt": string(certificate), "client.crt": string(certificate)}, "no such file"},
		"key of another":       {byFiles, map[string]string{"ca.crt": string(certificate), "client.crt": string(certificate), "client.key": string(oldKey)}, "the client certificate and its key"},
		"half a certificate":   {byFiles, map[string]string{"ca.crt": string(certificate), "client.crt": string(certificate[:100]), "client.key": string(key)}, "the client certificate and its key"},
		"expired certificate":  {byFiles, map[string]string{"ca.crt": string(certificate), "client.crt": string(old), "client.key": string(oldKey)}, "expired at"},
		"CA file without a CA": {byFiles, map[string]string{"ca.crt": "nothing", "client.crt": string(certificate), "client.key": string(key)}, "the CA of the API server"},
		"empty token":          {token, map[string]string{"token": "\n"}, "is empty"},
		"missing token":        {token, nil, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKubeconfig(t, try.shape)
			for file, content := range try.files {
				k.put(file, []byte(content))
			}
			a, err := k.load()
			if err == nil || !strings.Contains(err.Error(), try.says) {
				t.Errorf("loading gives %v, want %q", err, try.says)
			}
			if len(a.Files) < 2 {
				t.Errorf("files %q: those that are named are not known", a.Files)
			}
		})
	}
}

// To open a named pipe for reading blocks until somebody writes to it: the process would do nothing else any more.
func TestANamedPipeIsRefusedAtOnce(t *testing.T) {
	token := func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.TokenFile = "token" }
	for _, file := range []string{"token", "kubeconfig"} {
		t.Run(file, func(t *testing.T) {
			k := newKubeconfig(t, token)
			k.put("token", []byte("secret"))
			if err := errors.Join(os.Remove(k.path(file)), syscall.Mkfifo(k.path(file), 0o600)); err != nil {
				t.Fatal(err)
			}
			loaded := make(chan error, 1)
			var a *Access
			go func() {
				var err error
				a, err = k.load()
				loaded <- err
			}()
			select {
			case err := <-loaded:
				if err == nil || !strings.Contains(err.Error(), "not a regular file") {
					t.Errorf("loading gives %v", err)
				}
				if !slices.Contains(a.Files, k.path(file)) {
					t.Errorf("files %q: that it is replaced by another one would not be noticed", a.Files)
				}
			case <-time.After(10 * time.Second):
				t.Error("loading does not end")
			}
		})
	}
}

// A kubeconfig that names no cluster is still being written, or was edited in the wrong way. It does not lead to the
// API server of the pod that the process runs in. Pins MGR-243.
func TestAKubeconfigWithoutAClusterIsRefused(t *testing.T) {
	const noContext = "apiVersion: v1\nkind: Config\nclusters: [{name: k, cluster: {server: 'https://own.test'}}]\n" +
		"users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
	files := map[string]string{"/empty": "", "/bare": "apiVersion: v1\nkind: Config\n", "/no-context": noContext}
	pod.Inside(t, files, func() {
		for path := range files {
			a, err := LoadAccess(Source{Kubeconfig: path}, time.Now())
			if err == nil {
				t.Errorf("%s leads to %s", path, a.Config.Host)
			}
		}
		if a, err := LoadAccess(Source{}, time.Now()); err != nil || a.Config.Host != pod.Host {
			t.Errorf("without a kubeconfig: %v", err)
		}
	})
}

// The check of a configuration refuses the kubeconfigs that no client can be made with, and no others. Pins MGR-245.
func TestTheCheckOfKubeconfigsAgreesWithTheClients(t *testing.T) {
	ca, _ := pair(t, "ca", nil, time.Now().Add(time.Hour))
	for name, shape := range map[string]func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo){
		"a token":               func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token = "t" },
		"a CA":                  func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = ca },
		"a CA that is none":     func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = []byte("x") },
		"no verification":       func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.InsecureSkipTLSVerify = true },
		"a host without scheme": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "one.test:6443" },
		"no URL":                func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://one .test" },
		"a CA and no verification": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.CertificateAuthorityData, c.InsecureSkipTLSVerify = ca, true
		},
		"a plugin": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v1", Command: "/must-not-run", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		},
		"a plugin of another version": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v0", Command: "/must-not-run", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		},
		"an unknown plugin": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "gone"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKubeconfig(t, shape)
			a, err := k.load()
			if err == nil {
				var c *Clients
				if c, err = New(Options{Base: a.Config}); err == nil {
					c.Close()
				}
			}
			d := must.Get(config.Load("f.yaml", fmt.Appendf(nil, "apiVersion: config.kcmd.dev/v1beta1\n"+
				"kind: KubeControllerManagerConfiguration\nclientConnection: {kubeconfig: %s}\n", k.path("kubeconfig"))))(t)
			if problems := d.CheckFiles(); problems.HasErrors() != (err != nil) {
				t.Errorf("the check says %q, the clients say %v", problems.Error(), err)
			}
		})
	}
}

func webToken(subject string, number int) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"iss":"i","sub":%q,"jti":"%d"}`, subject, number)) + "." + part("signature")
}

func TestCompare(t *testing.T) {
	ca := func() []byte { c, _ := pair(t, "ca", nil, time.Now().Add(time.Hour)); return c }
	authority := ca()
	certificate, key := pair(t, "me", []string{"a", "b"}, time.Now().Add(time.Hour))
	base := func() *Access {
		return &Access{user: "u", Config: &rest.Config{
			Host:            "https://one.test:6443",
			TLSClientConfig: rest.TLSClientConfig{CAData: authority, CertData: certificate, KeyData: key},
			BearerToken:     webToken("me", 1),
		}}
	}
	for name, try := range map[string]struct {
		change func(*Access)
		want   Difference
	}{
		"nothing":            {func(*Access) {}, Same},
		"other files":        {func(a *Access) { a.Files = []string{"x"} }, Same},
		"renewed token":      {func(a *Access) { a.Config.BearerToken = webToken("me", 2) }, Renewed},
		"token of another":   {func(a *Access) { a.Config.BearerToken = webToken("you", 1) }, Elsewhere},
		"certificate":        {func(a *Access) { a.Config.CertData, a.Config.KeyData = pair(t, "me", []string{"b", "a"}, time.Now()) }, Renewed},
		"other user":         {func(a *Access) { a.Config.CertData, a.Config.KeyData = pair(t, "you", []string{"a", "b"}, time.Now()) }, Elsewhere},
		"other groups":       {func(a *Access) { a.Config.CertData, a.Config.KeyData = pair(t, "me", nil, time.Now()) }, Elsewhere},
		"no certificate":     {func(a *Access) { a.Config.CertData, a.Config.KeyData = nil, nil }, Elsewhere},
		"CA":                 {func(a *Access) { a.Config.CAData = ca() }, Renewed},
		"server name":        {func(a *Access) { a.Config.ServerName = "x" }, Renewed},
		"server":             {func(a *Access) { a.Config.Host = "https://two.test:6443" }, Elsewhere},
		"other content type": {func(a *Access) { a.Config.ContentType = "application/json" }, Elsewhere},
		"impersonation":      {func(a *Access) { a.Config.Impersonate.UserName = "you" }, Elsewhere},
		"exec plugin":        {func(a *Access) { a.Config.ExecProvider = &clientcmdapi.ExecConfig{Command: "x"} }, Elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			next := base()
			try.change(next)
			got, err := base().Compare(next)
			if err != nil || got != try.want {
				t.Errorf("got %v, %v, want %v", got, err, try.want)
			}
		})
	}
	opaque, renewed, other := base(), base(), base()
	opaque.Config.BearerToken, renewed.Config.BearerToken, other.Config.BearerToken = "x", "y", "y"
	other.user = "v"
	if got, _ := opaque.Compare(renewed); got != Renewed {
		t.Errorf("another opaque token of the same user of the kubeconfig: %v", got)
	}
	if got, _ := opaque.Compare(other); got != Elsewhere {
		t.Errorf("an opaque token of another user of the kubeconfig: %v", got)
	}
}
