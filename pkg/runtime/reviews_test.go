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

	"kcmd.dev/test/must"
)

// replace replaces a file at once.
func replace(t *testing.T, path, content string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path+".next", []byte(content), 0o600))
	must.Succeed(t, os.Rename(path+".next", path))
}

// A kubeconfig for reviews that comes before the certificate which it names is used as soon as that is there.
// Pins MGR-233.
func TestAKubeconfigForReviewsWaitsForItsFiles(t *testing.T) {
	var reviewed atomic.Int32
	reviewer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
			reviewed.Add(1)
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(reviewer.Close)
	const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {client-certificate: client.crt, client-key: client.key}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	s := newLeaseServer(t)
	cfg := served(t, s)
	cfg.LeaderElection.LeaderElect = ptr.To(false)
	path := filepath.Join(t.TempDir(), "reviews")
	certificate, key := must.Get(os.ReadFile(cfg.Serving.TLS.CertFile))(t), must.Get(os.ReadFile(cfg.Serving.TLS.PrivateKeyFile))(t)
	replace(t, path, string(must.Get(os.ReadFile(cfg.ClientConnection.Kubeconfig))(t)))
	cfg.Serving.Authentication.Kubeconfig, cfg.Serving.Authentication.SkipLookup = path, ptr.To(true)
	w := begin(t, cfg)

	replace(t, path, fmt.Sprintf(kubeconfig, reviewer.URL))
	// What has changed at the same time is handled before the second edit.
	for n := range 2 {
		cfg.Resync.MinPeriod = &metav1.Duration{Duration: time.Duration(n+13) * time.Hour}
		w.write(t, cfg)
		w.wait(t, "the edit is in force", func() error { return goalOf(t, cfg).reached(w.runtime.Status()) })
	}
	folder := filepath.Dir(path)
	replace(t, filepath.Join(folder, "client.crt"), string(certificate))
	replace(t, filepath.Join(folder, "client.key"), string(key))

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	asked := 0
	w.wait(t, "the new kubeconfig is used", func() error {
		asked++
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/statusz", *cfg.Serving.Port), nil))(t)
		request.Header.Set("Authorization", fmt.Sprintf("Bearer %d", asked)) // one whose review is not remembered
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil {
			return err
		}
		if reviewed.Load() == 0 {
			return errors.New("no token was reviewed there")
		}
		return nil
	})
}
