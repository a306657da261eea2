package clients

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"
	binary "k8s.io/component-base/version"

	"kcmd.dev/test/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// again makes another typed client of a set's Config.
func (s *Set) again() (kubernetes.Interface, error) { return kubernetes.NewForConfig(s.Config) }

// Pins MGR-3 and MGR-3a.
func TestUserAgent(t *testing.T) {
	platform := goruntime.GOOS + "/" + goruntime.GOARCH
	for want, v := range map[string]version.Info{
		"kube-controller-manager/v1.36.3 (" + platform + ") kubernetes/0123456/x": {GitVersion: "v1.36.3", GitCommit: "0123456789"},
		"kube-controller-manager/v1.36.0 (" + platform + ") kubernetes/012/x":     {GitVersion: "v1.36.0-alpha.1+abc", GitCommit: "012"},
		"kube-controller-manager/unknown (" + platform + ") kubernetes/unknown/x": {},
	} {
		if got := userAgent(v, "x"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Pins MGR-3b, MGR-43 and WL-3.
func TestRequestsSayWhoTheyAreFrom(t *testing.T) {
	prefix := strings.TrimSuffix(userAgent(binary.Get(), ""), "/")
	s := newServer(t)
	for _, tc := range []struct {
		id     Identity
		suffix string
	}{
		{Identity{Name: "job-controller", ServiceAccount: "job-controller"}, "/job-controller"},
		{Identity{Name: "serviceaccount-token-controller", ClientName: "tokens-controller"}, "/tokens-controller"},
		{Identity{Name: "shared-informers"}, "/shared-informers"},
	} {
		set := s.set(tc.id, nil)
		further, err := set.again()
		if err != nil {
			t.Fatal(err)
		}
		for _, get := range []func() error{
			func() error {
				_, err := set.Kubernetes.CoreV1().ConfigMaps("ns").Get(t.Context(), "x", metav1.GetOptions{})
				return err
			},
			func() error {
				_, err := set.Metadata.Resource(configMaps).Namespace("ns").Get(t.Context(), "x", metav1.GetOptions{})
				return err
			},
			func() error {
				_, err := set.Dynamic.Resource(configMaps).Namespace("ns").Get(t.Context(), "x", metav1.GetOptions{})
				return err
			},
			func() error { _, err := set.Discovery.ServerVersion(); return err },
			func() error {
				_, err := further.CoreV1().ConfigMaps("ns").Get(t.Context(), "x", metav1.GetOptions{})
				return err
			},
		} {
			if err := get(); err != nil && !strings.Contains(err.Error(), "metadata") {
				t.Fatal(err)
			}
		}
		got := s.seen()
		if len(got) != 5 {
			t.Fatalf("%d requests", len(got))
		}
		for _, r := range got {
			if !strings.HasPrefix(r.userAgent, prefix) || !strings.HasSuffix(r.userAgent, tc.suffix) || r.authorization != "Bearer own-token" {
				t.Errorf("%s sent user agent %q, authorization %q", r.path, r.userAgent, r.authorization)
			}
		}
		if !strings.Contains(got[0].accept, "protobuf") || strings.Contains(got[2].accept, "protobuf") || !strings.Contains(got[1].accept, "PartialObjectMetadata") {
			t.Errorf("accepted by typed client: %q, metadata: %q, dynamic: %q", got[0].accept, got[1].accept, got[2].accept)
		}
	}
}

// TestManySetsShareConnectionsAndLeakNothing is what a thousand reloads do.
func TestManySetsShareConnectionsAndLeakNothing(t *testing.T) {
	before := metrics.TransportCreateCalls
	lookups := &countLookups{} // every use of client-go's transport cache, hit or not
	metrics.TransportCreateCalls = lookups
	t.Cleanup(func() { metrics.TransportCreateCalls = before })

	s := newServer(t)
	s.answer(newAccountServer().answer)
	c := s.clients(func(o *Options) { o.ServiceAccounts = true })
	use := func(id Identity) {
		fence := NewFence()
		set, err := c.For(id, Fences(fence, NewFence()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Kubernetes.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap(nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := set.Dynamic.Resource(configMaps).Namespace("ns").Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		fence.Close(nil)
	}
	use(Identity{Name: "root"})
	use(Identity{Name: "c", ServiceAccount: "c"})
	goroutines := goruntime.NumGoroutine()
	for i := range 1000 {
		use(Identity{Name: "root"})
		use(Identity{Name: "c", ServiceAccount: []string{"c", "d", "e"}[i%3]})
		if i%100 == 0 {
			s.seen()
		}
	}
	if got := s.connections.Load(); got > 2 {
		t.Errorf("%d connections, want one with the credentials of the process and one without", got)
	}
	if got := lookups.n.Load(); got != 4 {
		t.Errorf("%d transports were asked for, want three with the credentials of the process, of which two are for watches, and one without", got)
	}
	await.That(t, "there are as many goroutines as before", func(context.Context) error {
		if now := goruntime.NumGoroutine(); now > goroutines+5 {
			return fmt.Errorf("%d, %d before", now, goroutines)
		}
		return nil
	})
	t.Logf("connections %d, transports %d, goroutines %d before, %d after", s.connections.Load(), lookups.n.Load(), goroutines, goruntime.NumGoroutine())
}

type countLookups struct{ n atomic.Int32 }

func (c *countLookups) Increment(string) { c.n.Add(1) }

func TestLoadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := os.WriteFile(path, []byte(`
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://example.test:6443"}}]
users: [{name: u, user: {token: t}}]
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	config, err := loadConfig(Source{Kubeconfig: path, ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://example.test:6443" || config.BearerToken != "t" || !config.DisableCompression ||
		config.ContentType != "application/vnd.kubernetes.protobuf" || config.AcceptContentTypes != "application/json" ||
		config.WarningHandler != (rest.NoWarnings{}) {
		t.Fatalf("got %v", config)
	}

	if _, err := loadConfig(Source{Kubeconfig: path + ".missing"}); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("missing file: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_MASTER", "")
	_, err = loadConfig(Source{})
	const want = "loading client configuration: invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || os.IsNotExist(err) {
			return err
		}
		err = u.Unwrap()
	}
}

func TestNewNeedsAUsableConfig(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("clients without configuration")
	}
	if _, err := New(Options{Base: &rest.Config{Host: "https://h", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no certificate")}}}); err == nil {
		t.Error("clients with an unusable CA")
	}
}
