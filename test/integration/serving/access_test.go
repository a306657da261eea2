package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kcmd.dev/test/await"
	"kcmd.dev/test/manager"
)

// closed are the paths that need authorization, open those that do not.
var (
	closed = []string{
		"/", "/metrics", "/metrics/slis", "/configz", "/statusz", "/statusz?format=json", "/flagz",
		"/healthz/leaderElection", "/healthz/" + deployment, "/livez/ping", "/readyz/informer-sync",
		"/debug/pprof", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1", "/debug/pprof/symbol", "/debug/pprof/trace",
		"/debug/flags", "/debug/flags/v", "/debug/controllers/garbage-collector-controller/graph",
		"/debug/why", "/debug/why?type=deployment&name=web",
		"/no-such-page", "//healthz", "/healthz/../metrics",
	}
	open  = []string{"/healthz", "/livez", "/readyz", "/healthz?verbose"}
	verbs = []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace,
	}
)

func whoMayReadWhat(t *testing.T, m *manager.Process, monitor, stranger string) {
	asked := 0
	// A stranger who asks too much at a time is told to wait, which is no answer yet.
	expect := func(who, method, path, bearer string, header http.Header, want int) {
		t.Helper()
		await.That(t, fmt.Sprintf("%s gets %d for %s %s", who, want, method, path), func(context.Context) error {
			asked++
			got, err := ask(t, from(t, asked), method, m.URL()+path, bearer, header)
			if err == nil && got.code != want {
				err = fmt.Errorf("the answer is %d: %s", got.code, got.body)
			}
			return err
		})
	}
	for _, path := range closed {
		for _, verb := range verbs {
			expect("anonymous", verb, path, "", nil, http.StatusForbidden)
			expect("a token without rights", verb, path, stranger, nil, http.StatusForbidden)
		}
		expect("a token that is none", http.MethodGet, path, "nonsense", nil, http.StatusUnauthorized)
		expect("who only claims to be somebody", http.MethodGet, path, "", http.Header{
			"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}, "Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters"},
		}, http.StatusForbidden)
	}
	for _, path := range open {
		expect("anonymous", http.MethodGet, path, "", nil, http.StatusOK)
		for _, verb := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			expect("anonymous", verb, path, "", nil, http.StatusMethodNotAllowed)
		}
	}
	for path, want := range map[string]int{
		"/metrics": 200, "/metrics/slis": 200, "/statusz": 200, "/flagz": 200, "/configz": 403, "/debug/pprof/": 403, "/debug/flags/v": 403,
	} {
		expect("monitoring", http.MethodGet, path, monitor, nil, want)
	}
	expect("monitoring", http.MethodDelete, "/metrics/slis", monitor, nil, http.StatusForbidden)
	t.Logf("%d requests", asked)
}

// clientsStayKnown checks that a client with a certificate is not taken for a stranger by an endpoint that replaces
// another one.
func clientsStayKnown(t *testing.T, m *manager.Process) {
	stop, failed := make(chan struct{}), make(chan error, 1)
	var answered atomic.Int64
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			got, err := ask(t, m.Client(), http.MethodGet, m.URL()+"/metrics/slis", "", nil)
			switch {
			case err != nil: // one endpoint is gone, and the next is not there yet
			case got.code == http.StatusOK:
				answered.Add(1)
			default:
				failed <- fmt.Errorf("after %d answers, one is %d: %s", answered.Load(), got.code, got.body)
				return
			}
		}
	})
	end := sync.OnceFunc(func() {
		close(stop)
		asking.Wait()
	})
	defer end()
	before := m.Config().Serving.TLS.MinVersion
	for _, version := range []string{"VersionTLS13", "VersionTLS12", "VersionTLS13", before} {
		edit(t, m, func(c *manager.Config) { c.Serving.TLS.MinVersion = version })
		replaced := answered.Load()
		await.That(t, "the client is answered with "+version, func(context.Context) error {
			select {
			case err := <-failed:
				return await.Final(err)
			default:
			}
			// The first may have been asked for before.
			if answered.Load() < replaced+2 {
				return errors.New("there is no answer")
			}
			return nil
		})
	}
	end()
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
}

// strangersStayBounded checks that who is merely allowed to ask for something, as everybody is for /version and every
// account for what is below /api, is a stranger on that connection still.
func strangersStayBounded(t *testing.T, m *manager.Process, stranger string) {
	for n, who := range []struct{ bearer, path string }{{"", "/version"}, {stranger, "/api/x"}} {
		// Several ask at a time, each on a connection that is kept, so that they are quicker than strangers may be.
		const askers, requests = 8, 100
		kept := from(t, 600+n)
		transport := kept.Transport.(*http.Transport)
		transport.DisableKeepAlives, transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = false, askers, askers
		var refused atomic.Bool
		var asking sync.WaitGroup
		for range askers {
			asking.Go(func() {
				for asked := 0; asked < requests && !refused.Load(); asked++ {
					got, err := ask(t, kept, http.MethodGet, m.URL()+who.path, who.bearer, nil)
					switch {
					case err != nil:
						t.Error(err)
						return
					case got.code == http.StatusTooManyRequests:
						refused.Store(true)
					case got.code != http.StatusNotFound:
						t.Errorf("%s is answered with %d: %s", who.path, got.code, got.body)
						return
					}
				}
			})
		}
		asking.Wait()
		if !refused.Load() {
			t.Errorf("none of %d requests for %s was refused", askers*requests, who.path)
		}
	}
}

// readable are the pages that are looked through for secrets.
var readable = []string{
	"/healthz?verbose", "/livez?verbose", "/readyz?verbose", "/metrics", "/metrics/slis", "/configz", "/flagz", "/statusz", "/statusz?format=json",
	"/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/flags",
}

// noSecrets looks on every page for what the files that the process reads hold, and for
// the credentials of who asks.
func noSecrets(t *testing.T, m *manager.Process, monitor string) {
	secrets := map[string]string{"the token of who asks": monitor, "a PEM block": "-----BEGIN"}
	for name, file := range map[string]string{"the kubeconfig": plane.ManagerKubeconfig(), "the key of service accounts": plane.ServiceAccountKeyFile()} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// Every longer run of base64 is part of a key or certificate.
		for n, part := range regexp.MustCompile(`[A-Za-z0-9+/=]{40,}`).FindAll(content, -1) {
			secrets[fmt.Sprintf("part %d of %s", n, name)] = string(part)
		}
	}
	if len(secrets) < 5 {
		t.Fatalf("only %d secrets to look for", len(secrets))
	}
	for _, path := range readable {
		for _, accept := range []string{"", "text/html", "application/json"} {
			got, err := ask(t, m.Client(), http.MethodGet, m.URL()+path, "", http.Header{"Accept": {accept}})
			if err != nil {
				t.Fatal(err)
			}
			if got.code != http.StatusOK && got.code != http.StatusNotAcceptable {
				t.Errorf("%s is answered with %d", path, got.code)
			}
			for name, secret := range secrets {
				if strings.Contains(got.body, secret) {
					t.Errorf("%s as %q shows %s", path, accept, name)
				}
			}
		}
	}
	log, err := os.ReadFile(m.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range secrets {
		if bytes.Contains(log, []byte(secret)) {
			t.Errorf("the log shows %s", name)
		}
	}
	configurations(t, m)
}

// configurations checks that /configz shows the configuration in force in both forms.
func configurations(t *testing.T, m *manager.Process) {
	t.Helper()
	body, err := m.Get(t.Context(), "/configz")
	if err != nil {
		t.Fatal(err)
	}
	var shown map[string]map[string]any
	if err := json.Unmarshal(body, &shown); err != nil {
		t.Fatal(err)
	}
	ours, upstream := shown["config.kcmd.dev"], shown["kubecontrollermanager.config.k8s.io"]
	if ours["apiVersion"] != "config.kcmd.dev/v1beta1" || ours["controllers"] == nil {
		t.Errorf("our form has apiVersion %v and %d fields", ours["apiVersion"], len(ours))
	}
	if upstream["DeploymentController"] == nil || upstream["Generic"] == nil {
		t.Errorf("upstream's form has the fields %v", upstream)
	}
}
