package serving

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/must"
)

// Only what has a name of its own below a path is served there. Pins MGR-100.
func TestPathsMatchExactly(t *testing.T) {
	content := site()
	content.Why = nothing
	content.Debug = func(name string) http.Handler {
		if name != "shown" {
			return nil
		}
		return nothing
	}
	h := content.Handler(v1beta1.Serving{Profiling: ptr.To(true)})
	for _, path := range []string{
		"/healthz", "/healthz/ping", "/livez", "/readyz", "/metrics", "/metrics/slis", "/configz", "/flagz", "/statusz", "/debug/why",
		"/debug/controllers/shown", "/debug/controllers/shown/a/b", "/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/symbol",
	} {
		if got := get(h, path, ""); got.Code != http.StatusOK {
			t.Errorf("%s is answered with %d %q", path, got.Code, got.Body)
		}
	}
	for _, path := range []string{
		"/", "/healthz/", "/livez/", "/readyz/", "/metrics/", "/metrics/other", "/metrics/slis/", "/configz/", "/configz/other", "/flagz/",
		"/statusz/", "/debug/why/", "/debug/controllers/", "/debug/controllers/hidden", "/debug/controllers/hidden/shown", "/debug/pprof/other",
	} {
		if got := get(h, path, ""); got.Code != http.StatusNotFound {
			t.Errorf("%s is answered with %d %q", path, got.Code, got.Body)
		}
	}
	if got := get(h, "/debug/pprof", ""); got.Code != http.StatusFound || got.Header().Get("Location") != "/debug/pprof/" {
		t.Errorf("/debug/pprof is answered with %d, leading to %q", got.Code, got.Header().Get("Location"))
	}
}

// Pins MGR-104.
func TestMetricsAreReadOnly(t *testing.T) {
	content, registry := site(), prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "things_total", Help: "Things."})
	registry.MustRegister(counter)
	counter.Add(3)
	content.Metrics = registry
	h := content.Handler(v1beta1.Serving{Profiling: ptr.To(false)})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("DELETE is answered with %d", w.Code)
	}
	got := get(h, "/metrics", "")
	if want := "# HELP things_total Things.\n# TYPE things_total counter\nthings_total 3\n"; got.Body.String() != want ||
		!strings.HasPrefix(got.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%s %q, want %q", got.Header().Get("Content-Type"), got.Body, want)
	}
}

// What was counted of health checks changes when they are asked, and begins again on request. Pins MGR-105 and MGR-137.
func TestIndicatorsOfHealth(t *testing.T) {
	content, sick := site(), error(nil)
	content.Health = []healthz.HealthChecker{healthz.NamedCheck("indicated", func(*http.Request) error { return sick })}
	h := content.Handler(v1beta1.Serving{Profiling: ptr.To(false)})
	shown := func() string {
		var lines []string
		for line := range strings.Lines(get(h, "/metrics/slis", "").Body.String()) {
			if strings.Contains(line, `name="indicated"`) {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	expect := func(when, want string) {
		t.Helper()
		if got := shown(); got != want {
			t.Errorf("%s: got\n%s want\n%s", when, got, want)
		}
	}
	expect("before anybody has asked", "")
	get(h, "/healthz", "")
	healthy := `kubernetes_healthcheck{name="indicated",type="healthz"} 1
kubernetes_healthchecks_total{name="indicated",status="success",type="healthz"} 1
`
	expect("healthy", healthy)
	sick = errors.New("sick")
	expect("nobody has asked since", healthy)
	get(h, "/healthz", "")
	expect("sick", `kubernetes_healthcheck{name="indicated",type="healthz"} 0
kubernetes_healthchecks_total{name="indicated",status="error",type="healthz"} 1
kubernetes_healthchecks_total{name="indicated",status="success",type="healthz"} 1
`)
	if all := get(h, "/metrics/slis", "").Body.String(); !strings.Contains(all, "\nprocess_start_time_seconds ") ||
		!strings.Contains(all, "# HELP kubernetes_healthchecks_total [STABLE] ") {
		t.Errorf("shown is %s", all)
	}
	t.Cleanup(func() { // the time is gone after a reset, from a registry that all tests share
		must.Succeed(t, metrics.RegisterProcessStartTime(func(metrics.Registerable) error { return nil }))
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/metrics/slis", nil))
	if w.Code != http.StatusOK || w.Body.String() != "metrics reset\n" {
		t.Errorf("DELETE is answered with %d %q", w.Code, w.Body)
	}
	expect("begun again", "")
}

// A controller sees the rest of the path, and whatever else was asked. Pins MGR-111.
func TestControllersShowThemselves(t *testing.T) {
	content, runs := site(), true
	content.Debug = func(name string) http.Handler {
		if !runs || name != "garbage-collector-controller" {
			return nil
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/vnd.graphviz")
			_, _ = io.WriteString(w, r.URL.Path+" "+r.URL.RawQuery)
		})
	}
	h := content.Handler(v1beta1.Serving{Profiling: ptr.To(false)})
	const page = "/debug/controllers/garbage-collector-controller"
	for _, test := range [][2]string{{"/graph", "/graph "}, {"/graph?uid=a&uid=b", "/graph uid=a&uid=b"}, {"", " "}} {
		if got := get(h, page+test[0], ""); got.Body.String() != test[1] || got.Header().Get("Content-Type") != "text/vnd.graphviz" {
			t.Errorf("%q is answered with %d %v %q, want %q", test[0], got.Code, got.Header(), got.Body, test[1])
		}
	}
	runs = false // it does on the leader
	if got := get(h, page+"/graph", ""); got.Code != http.StatusNotFound {
		t.Errorf("of one that does not run: %d", got.Code)
	}
}
