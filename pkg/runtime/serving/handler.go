package serving

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/metrics/prometheus/slis"

	"kcmd.dev/pkg/config/v1beta1"
)

// Content is what the endpoint shows.
type Content struct {
	// Health are the checks of /healthz, Live those of /livez, Ready those of /readyz.
	Health, Live, Ready []healthz.HealthChecker
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
	// Config is the configuration in force, keyed by group, for /configz.
	Config func() map[string]any
	// Flags are what /flagz shows.
	Flags func() map[string]string
	// Status is what /statusz shows, in the forms that readers ask for.
	Status Status
	// Why answers under /debug/why what controllers did with an object, and what they wait for.
	Why http.Handler
	// Debug is what a controller shows under /debug/controllers/<name>/, nil if nothing.
	Debug func(controller string) http.Handler
	// SetVerbosity sets the log level, from what is sent to /debug/flags/v, and returns
	// what to answer.
	SetVerbosity func(level string) (string, error)
}

// Status is the status of the process in the forms that readers ask for.
type Status struct {
	// Version is that of the build, and what it emulates.
	Version func() compatibility.EffectiveVersion
	// JSON is what is encoded for programs.
	JSON func() any
	// Text is for terminals.
	Text func() string
	// Page is the HTML page for browsers, and the content security policy it needs.
	// If refresh is not 0, the browser is to load it again after that time.
	Page func(refresh time.Duration) (page []byte, policy string, err error)
}

// slisPath is where component-base shows the metrics of health checks, which a DELETE resets.
const slisPath = "/metrics/slis"

// Limits of readers of the metrics.
const (
	// maxScrapes is how many of them are served at once.
	maxScrapes = 8
	// scrapeTimeout is how long a response to one of them may take. Without it, a few that do not read their response
	// would keep the metrics from everybody else.
	scrapeTimeout = time.Minute
)

// Handler serves the content. Paths match exactly, but for those below /healthz, /livez,
// /readyz, /debug/controllers and /debug/pprof.
func (c Content) Handler(s v1beta1.Serving) http.Handler {
	m := mux.NewPathRecorderMux(component)
	reading := readable{m}
	healthz.InstallHandler(reading, c.Health...)
	healthz.InstallLivezHandler(reading, c.Live...)
	healthz.InstallReadyzHandler(reading, c.Ready...)
	reading.Handle("/metrics", within(scrapeTimeout, promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{
		// A family that cannot be gathered must not hide the others.
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
	})))
	slis.SLIMetricsWithReset{}.Install(m)
	reading.Handle("/configz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, c.Config()) }))
	reading.Handle("/flagz", flagzHandler(c.Flags))
	c.installDebugging(m, s)
	reading.Handle("/statusz", c.Status.handler(append(m.ListedPaths(), "/statusz")))
	return m
}

// within limits how long a response may take.
func within(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Writers of tests have no deadline.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
		next.ServeHTTP(w, r)
	})
}

// readable permits reading only.
type readable struct{ *mux.PathRecorderMux }

// Handle adds a path.
func (m readable) Handle(path string, handler http.Handler) {
	m.PathRecorderMux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this path can only be read", http.StatusMethodNotAllowed)
			return
		}
		handler.ServeHTTP(w, r)
	}))
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "encoding the response: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}
