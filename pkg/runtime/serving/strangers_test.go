package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"
)

// visit sends a request from an address and returns the code of the answer.
func visit(h http.Handler, from, path, token string) int {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = from
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// Pins MGR-185.
func TestStrangersAreBoundedInRate(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	h := newStrangers(freePaths([]string{"/healthz"}), clk, NewMetrics(metrics.NewKubeRegistry())).admit(nothing)
	admitted := func(from string, n int) int {
		passed := 0
		for range n {
			if visit(h, from, "/metrics", "") == http.StatusOK {
				passed++
			}
		}
		return passed
	}
	if got := admitted("a", 100); got != strangerBurst {
		t.Errorf("%d of 100 requests of one address passed, want %d", got, strangerBurst)
	}
	if got := admitted("b", 1); got != 1 {
		t.Error("another address suffers")
	}
	if got := visit(h, "a", "/healthz", ""); got != http.StatusOK {
		t.Errorf("health is answered with %d", got)
	}
	if got := visit(h, "a", "/healthz", "x"); got != http.StatusTooManyRequests {
		t.Errorf("health with a token, which has to be reviewed, is answered with %d", got)
	}
	for what, credentials := range map[string]func(*http.Request){
		"a token of a web socket": func(r *http.Request) {
			r.Header.Set("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.eA, x")
		},
		"a client certificate": func(r *http.Request) { r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}} },
	} {
		r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		r.RemoteAddr = "a"
		credentials(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusTooManyRequests {
			t.Errorf("health with %s is answered with %d", what, w.Code)
		}
	}
	clk.SetTime(clk.Now().Add(time.Second))
	if got := admitted("a", 100); got != strangerRate {
		t.Errorf("%d passed a second later, want %d", got, strangerRate)
	}
	clk.SetTime(clk.Now().Add(time.Minute))
	total := 0
	for _, from := range []string{"c", "d", "e", "f", "g", "h", "i", "j"} {
		total += admitted(from, strangerBurst)
	}
	if total != strangersBurst {
		t.Errorf("%d requests of many addresses passed, want %d", total, strangersBurst)
	}
}

// Pins MGR-185.
func TestStrangersAreBoundedInNumber(t *testing.T) {
	s := newStrangers(freePaths(nil), clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), NewMetrics(metrics.NewKubeRegistry()))
	for range maxStranger {
		if !s.begin("a") {
			t.Fatal("refused below the limit")
		}
	}
	if s.begin("a") || !s.begin("b") {
		t.Error("the limit of one address is not its own")
	}
	for range maxStranger {
		s.end("a")
	}
	s.end("b")
	if s.total != 0 || len(s.working) != 0 || !s.begin("a") {
		t.Errorf("after the end: %d requests, %v", s.total, s.working)
	}
}

func TestWhoIsAuthorizedIsNotBounded(t *testing.T) {
	s := newStrangers(freePaths([]string{"/healthz"}), clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), NewMetrics(metrics.NewKubeRegistry()))
	all := newConnections(10, s.metrics)
	c := all.add(&pipe{from: "10.0.0.1"})
	h := s.admit(s.trusting(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("ok"))
	})))
	ask := func(by user.Info, path string) int {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		w := httptest.NewRecorder()
		ctx := context.WithValue(r.Context(), connKey{}, c)
		h.ServeHTTP(w, r.WithContext(request.WithUser(ctx, by)))
		return w.Code
	}
	stranger := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	monitor := &user.DefaultInfo{Name: "monitor", Groups: []string{user.AllAuthenticated}}
	for what, not := range map[string]struct {
		by   user.Info
		path string
	}{
		"whoever reads health":                       {monitor, "/healthz"},
		"nobody in particular, whatever he may read": {stranger, "/metrics"},
		"whoever may read what is not served":        {monitor, "/version"},
		"whoever reads health that is not free":      {monitor, "/livez"},
	} {
		if ask(not.by, not.path); c.trusted.Load() {
			t.Errorf("%s is trusted", what)
		}
	}
	for range 3 * strangerBurst {
		if got := ask(monitor, "/metrics"); got != http.StatusOK {
			t.Fatalf("answered with %d", got)
		}
	}
}

func TestLongURLsAreRefused(t *testing.T) {
	h := newStrangers(freePaths([]string{"/healthz"}), clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), NewMetrics(metrics.NewKubeRegistry())).admit(nothing)
	if got := visit(h, "a", "/healthz?"+strings.Repeat("x", maxURL), ""); got != http.StatusRequestURITooLong {
		t.Errorf("answered with %d", got)
	}
}

func TestFreePaths(t *testing.T) {
	for _, test := range []struct {
		pattern, path string
		want          bool
	}{
		{"/healthz", "/healthz", true}, {"/healthz", "/healthz/x", false}, {"/healthz", "/healthzx", false},
		{"healthz", "/healthz", true}, {"/healthz*", "/healthz/x", true}, {"*", "/anything", true},
		{"/", "/", true}, {"/", "/metrics", false}, {"/a*", "/b", false},
	} {
		if got := freePaths([]string{test.pattern})(test.path); got != test.want {
			t.Errorf("%q allows %q: %v", test.pattern, test.path, got)
		}
	}
}
