package serving

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics/prometheus/slis"
)

// Content is what the endpoint shows.
type Content struct {
	// Health are the checks of /healthz, Live those of /livez, Ready those of /readyz.
	Health, Live, Ready []healthz.HealthChecker
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
	// Config is the configuration in force, keyed by group, for /configz.
	Config func() map[string]any
	// Status is what /statusz shows.
	Status func() any
	// Debug is what a controller shows under /debug/controllers/<name>/, nil if nothing.
	Debug func(controller string) http.Handler
	// StatusText is /statusz for a reader who does not ask for JSON.
	StatusText func() string
}

// Handler serves the content. Paths match exactly, but for those below the health
// checks and the profiles.
func (c Content) Handler(profiling bool) http.Handler {
	m := mux.NewPathRecorderMux("kube-controller-manager")
	healthz.InstallHandler(m, c.Health...)
	healthz.InstallLivezHandler(m, c.Live...)
	healthz.InstallReadyzHandler(m, c.Ready...)
	m.Handle("/metrics", promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{}))
	slis.SLIMetricsWithReset{}.Install(m)
	m.HandleFunc("/configz", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, c.Config()) })
	m.HandleFunc("/statusz", c.serveStatus)
	m.HandlePrefix(debugPrefix, http.HandlerFunc(c.serveDebug))
	if profiling {
		routes.Profiling{}.Install(m)
		routes.DebugFlags{}.Install(m, "v", routes.StringFlagPutHandler(logs.GlogSetter))
	}
	return m
}

// debugPrefix is the path below which controllers show themselves.
const debugPrefix = "/debug/controllers/"

func (c Content) serveDebug(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, debugPrefix), "/")
	handler := c.Debug(name)
	if handler == nil {
		http.NotFound(w, r)
		return
	}
	http.StripPrefix(debugPrefix+name, handler).ServeHTTP(w, r)
}

// serveStatus shows the status as text unless JSON is asked for.
func (c Content) serveStatus(w http.ResponseWriter, r *http.Request) {
	if wantsJSON(r) {
		writeJSON(w, c.Status())
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(c.StatusText()))
}

func wantsJSON(r *http.Request) bool {
	if r.URL.Query().Get("format") == "json" {
		return true
	}
	return r.Header.Get("Accept") == "application/json"
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "encoding the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(body, '\n'))
}
