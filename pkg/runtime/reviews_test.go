package runtime_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/must"
)

// replace replaces a file at once.
func replace(t *testing.T, path, content string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path+".next", []byte(content), 0o600))
	must.Succeed(t, os.Rename(path+".next", path))
}

// A kubeconfig for reviews that comes before what it needs is used as soon as that is there. Pins MGR-233.
func TestAKubeconfigForReviewsWaitsForItsFiles(t *testing.T) {
	const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {%s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	for name, tc := range map[string]struct {
		user string
		// broken makes a file that is needed unusable, and returns what mends it.
		broken func(t *testing.T, tls v1beta1.TLS, folder string) (mend func())
	}{
		"a certificate that it names": {
			user: "client-certificate: client.crt, client-key: client.key",
			broken: func(t *testing.T, tls v1beta1.TLS, folder string) func() {
				certificate, key := must.Get(os.ReadFile(tls.CertFile))(t), must.Get(os.ReadFile(tls.PrivateKeyFile))(t)
				return func() {
					replace(t, filepath.Join(folder, "client.crt"), string(certificate))
					replace(t, filepath.Join(folder, "client.key"), string(key))
				}
			},
		},
		"the key of the endpoint": {
			user: "username: a, password: b",
			broken: func(t *testing.T, tls v1beta1.TLS, _ string) func() {
				key := must.Get(os.ReadFile(tls.PrivateKeyFile))(t)
				replace(t, tls.PrivateKeyFile, "not a key")
				return func() { replace(t, tls.PrivateKeyFile, string(key)) }
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reviewed, reviewer := newReviewer(t)
			cfg := served(t, newLeaseServer(t))
			cfg.LeaderElection.LeaderElect = ptr.To(false)
			path := filepath.Join(t.TempDir(), "reviews")
			replace(t, path, string(must.Get(os.ReadFile(cfg.ClientConnection.Kubeconfig))(t)))
			cfg.Serving.Authentication.Kubeconfig, cfg.Serving.Authentication.SkipLookup = path, ptr.To(true)
			w := begin(t, cfg)

			mend := tc.broken(t, cfg.Serving.TLS, filepath.Dir(path))
			replace(t, path, fmt.Sprintf(kubeconfig, reviewer.URL, tc.user))
			// What has changed at the same time is handled before the second edit.
			for n := range 2 {
				cfg.Resync.MinPeriod = &metav1.Duration{Duration: time.Duration(n+13) * time.Hour}
				w.write(t, cfg)
				w.wait(t, "the edit is in force", func() error { return goalOf(t, cfg).reached(w.runtime.Status()) })
			}
			if reviewed.Load() > 0 {
				t.Fatal("the kubeconfig is used already")
			}
			mend()
			asked := 0
			w.wait(t, "the new kubeconfig is used", func() error {
				asked++
				if err := askWithToken(t, *cfg.Serving.Port, asked); err != nil { // one whose review is not remembered
					return err
				}
				if reviewed.Load() == 0 {
					return errors.New("no token was reviewed there")
				}
				return nil
			})
		})
	}
}

// newReviewer is a server that counts the reviews of tokens that it is asked for.
func newReviewer(t *testing.T) (*atomic.Int32, *httptest.Server) {
	t.Helper()
	reviewed := &atomic.Int32{}
	reviewer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
			reviewed.Add(1)
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(reviewer.Close)
	return reviewed, reviewer
}

// askWithToken sends a request with a token to the endpoint.
func askWithToken(t *testing.T, port int32, token int) error {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/statusz", port), nil))(t)
	request.Header.Set("Authorization", fmt.Sprintf("Bearer %d", token))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
