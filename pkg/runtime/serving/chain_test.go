package serving

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/pki"
)

// reviewer is an API server that knows the token jane, and is asked what requests may do.
type reviewer struct {
	mu      sync.Mutex
	reviews []authorizationv1.SubjectAccessReviewSpec
	tokens  int // reviewed
}

// decide is what the reviewer says of a path.
func decide(path string) (allowed, broken bool) { return path != "/metrics", path == "/broken" }

func (a *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var answer any
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		var review authenticationv1.TokenReview
		_ = json.Unmarshal(body, &review)
		a.tokens++
		review.Status.Authenticated = review.Spec.Token == "jane"
		review.Status.User.Username = review.Spec.Token
		answer = review
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		_ = json.Unmarshal(body, &review)
		a.reviews = append(a.reviews, review.Spec)
		var broken bool
		if review.Status.Allowed, broken = decide(review.Spec.NonResourceAttributes.Path); broken {
			w.WriteHeader(http.StatusForbidden)
			answer = apierrors.NewForbidden(schema.GroupResource{Resource: "subjectaccessreviews"}, "", io.ErrUnexpectedEOF).Status()
			break
		}
		answer = review
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// reviewed are the paths about which the reviewer was asked.
func (a *reviewer) reviewed() (paths []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.reviews {
		paths = append(paths, r.NonResourceAttributes.Verb+" "+r.NonResourceAttributes.Path)
	}
	return paths
}

// kubeconfigFor is a file that leads to an API server.
func kubeconfigFor(t *testing.T, url string) string {
	t.Helper()
	name, config := filepath.Join(t.TempDir(), "kubeconfig"), clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: url}
	config.Contexts["c"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c"}, "c"
	if err := clientcmd.WriteToFile(*config, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// quick are settings with a pair that takes no time to make.
func quick(t *testing.T) v1beta1.Serving {
	t.Helper()
	c := settings(t)
	c.TLS.CertFile, c.TLS.PrivateKeyFile = pki.CA(t, time.Now()).Write(t, t.TempDir())
	return c
}

// chain is what stands in front of a handler, which asks the reviewer.
func chain(t *testing.T, handler http.HandlerFunc) (http.Handler, *reviewer) {
	t.Helper()
	asked := &reviewer{}
	api := httptest.NewServer(asked)
	t.Cleanup(api.Close)
	kubeconfig := kubeconfigFor(t, api.URL)
	c := quick(t)
	c.Authentication.Kubeconfig, c.Authorization.Kubeconfig = kubeconfig, kubeconfig
	in, _, err := prepare(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.reviews.close)
	return in.protect(handler, c, clock.RealClock{}, NewMetrics(metrics.NewKubeRegistry())), asked
}

// request2 sends a request of HTTP/2.
func request2(h http.Handler, path, token string) (w *httptest.ResponseRecorder) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.ProtoMajor, r.ProtoMinor, r.Proto = 2, 0, "HTTP/2.0"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w = httptest.NewRecorder()
	defer func() { _ = recover() }() // a panic goes on to the server, which ends the connection
	h.ServeHTTP(w, r)
	return w
}

// What refused requests are told, and that HTTP/2 of nobody in particular ends with its answer. Pins MGR-96.
func TestWhatIsToldWhoIsRefused(t *testing.T) {
	h, _ := chain(t, http.NotFound)
	for _, test := range []struct {
		path, token  string
		code         int
		reason       metav1.StatusReason // empty: the answer is plain text
		says, closes string
	}{
		{"/metrics", "bad", http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized", "close"},
		{"/metrics", "jane", http.StatusForbidden, metav1.StatusReasonForbidden, `forbidden: User "jane" cannot get path "/metrics"`, ""},
		{"/metrics", "", http.StatusForbidden, metav1.StatusReasonForbidden, `forbidden: User "system:anonymous" cannot get path "/metrics"`, "close"},
		{"/broken", "jane", http.StatusInternalServerError, "", `Internal Server Error: "/broken": `, ""},
		{"/unknown", "jane", http.StatusNotFound, "", "404 page not found", ""},
	} {
		t.Run(test.path+" of "+test.token, func(t *testing.T) {
			w := request2(h, test.path, test.token)
			if got := w.Header().Get("Connection"); w.Code != test.code || got != test.closes {
				t.Errorf("answered with %d, connection %q, want %d and %q", w.Code, got, test.code, test.closes)
			}
			if test.reason == "" {
				if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" || !strings.HasPrefix(w.Body.String(), test.says) {
					t.Errorf("answered with %s %q, want %q", got, w.Body, test.says)
				}
				return
			}
			var status metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Kind != "Status" || status.Reason != test.reason || status.Message != test.says {
				t.Errorf("answered with %s, want a Status with reason %s and %q (%v)", w.Body, test.reason, test.says, err)
			}
		})
	}
}

// The order of the filters: a panic is an answer, every request has a line in the log, also one that is refused, and
// who it is from is asked before what he may do. Whatever is asked for is no resource. Pins MGR-95.
func TestRequestsGoThroughTheFiltersInOrder(t *testing.T) {
	h, asked := chain(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panics" {
			panic("as expected by this test")
		}
	})
	lines := logAt(t, "3")
	for path, want := range map[string]struct {
		token string
		code  int
		says  string
	}{
		"/panics":                    {"jane", http.StatusInternalServerError, "This request caused apiserver to panic. Look in the logs for details.\n"},
		"/api/v1/namespaces/ns/pods": {"jane", http.StatusOK, ""},
		"/metrics":                   {"bad", http.StatusUnauthorized, ""},
	} {
		w := request2(h, path, want.token)
		if w.Code != want.code || want.says != "" && w.Body.String() != want.says {
			t.Errorf("%s is answered with %d %q, want %d %q", path, w.Code, w.Body, want.code, want.says)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-cache, private" {
			t.Errorf("%s: Cache-Control is %q", path, got)
		}
		line := lines.lineWith(`URI="` + path + `"`)
		for _, part := range []string{`"HTTP"`, `verb="GET"`, "latency=", "userAgent=", "audit-ID=", "srcIP=", "resp="} {
			if !strings.Contains(line, part) {
				t.Errorf("%s: the log has the line %q, which lacks %s", path, line, part)
			}
		}
	}
	got := asked.reviewed()
	slices.Sort(got) // the paths are asked for in any order
	if want := []string{"get /api/v1/namespaces/ns/pods", "get /panics"}; !slices.Equal(got, want) {
		t.Errorf("the API server was asked about %q, want %q", got, want)
	}
	lines = logAt(t, "2")
	request2(h, "/quiet", "jane")
	if line := lines.lineWith("/quiet"); line != "" {
		t.Errorf("logged at a lower level: %q", line)
	}
}

// Whoever is asked to review is counted, as in upstream. Pins MGR-136.
func TestReviewsAreCounted(t *testing.T) {
	h, asked := chain(t, http.NotFound)
	for range 3 { // answers are remembered
		request2(h, "/unknown", "jane")
		request2(h, "/metrics", "bad")
	}
	if asked.tokens != 2 || len(asked.reviewed()) != 1 {
		t.Errorf("the API server was asked about %d tokens and %q, want 2 and one path", asked.tokens, asked.reviewed())
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, f := range families {
		var names []string
		for _, l := range f.Metric[0].Label {
			names = append(names, l.GetName())
		}
		labels[f.GetName()] = strings.Join(names, ",")
	}
	for name, want := range map[string]string{
		"authenticated_user_requests":                        "username",
		"authentication_attempts":                            "result",
		"authentication_duration_seconds":                    "result",
		"authorization_attempts_total":                       "result",
		"authorization_duration_seconds":                     "result",
		"apiserver_delegated_authn_request_total":            "code",
		"apiserver_delegated_authn_request_duration_seconds": "code",
		"apiserver_delegated_authz_request_total":            "code",
		"apiserver_delegated_authz_request_duration_seconds": "code",
		"authentication_token_cache_request_total":           "status",
		"apiserver_client_certificate_expiration_seconds":    "",
		"apiserver_audit_event_total":                        "",
	} {
		if got, ok := labels[name]; !ok || got != want {
			t.Errorf("%s: shown %v, labels %q, want %q", name, ok, got, want)
		}
	}
}

// A path that anybody may read is one that not everybody may change something with: the log verbosity, and
// the metrics of health checks. Pins MGR-199.
func TestOpenPathsCanOnlyBeRead(t *testing.T) {
	c := quick(t)
	c.Authorization.AlwaysAllowPaths = []string{"/*"}
	in, _, err := prepare(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.reviews.close)
	m := NewMetrics(metrics.NewKubeRegistry())
	h := in.protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), c, clock.RealClock{}, m)
	for request, want := range map[string]int{
		"GET /metrics": http.StatusOK, "POST /metrics": http.StatusOK, // which answers 405
		"GET /debug/flags": http.StatusOK, "HEAD /debug/pprof/heap": http.StatusOK,
		"PUT /debug/flags/v": http.StatusForbidden, "POST /debug/controllers/x": http.StatusForbidden,
		"GET /metrics/slis": http.StatusOK, "DELETE /metrics/slis": http.StatusForbidden,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != want {
			t.Errorf("%s by anybody: %d, want %d", request, w.Code, want)
		}
	}
	bounds := newStrangers(func(string) bool { return true }, clock.RealClock{}, m)
	for method, path := range map[string]string{http.MethodPut: "/debug/flags/v", http.MethodDelete: "/metrics/slis"} {
		if bounds.costsNothing(httptest.NewRequest(method, path, nil)) {
			t.Errorf("the API server is asked about %s %s, which is not bounded", method, path)
		}
	}
}
