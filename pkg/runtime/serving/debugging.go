package serving

import (
	"io"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"

	"kcmd.dev/pkg/config/v1beta1"
)

// debugPrefix is the path below which the debugging handlers of controllers are served.
const debugPrefix = "/debug/controllers/"

// whyPath is where the last writes of an object are explained.
const whyPath = "/debug/why"

func (c Content) installDebugging(m *mux.PathRecorderMux, s v1beta1.Serving) {
	m.HandlePrefix(debugPrefix, http.HandlerFunc(c.serveController))
	readable{m}.Handle(whyPath, within(scrapeTimeout, c.Why))
	if !*s.Profiling {
		return
	}
	routes.Profiling{}.Install(m)
	routes.DebugFlags{}.Install(m, "v", c.serveVerbosity)
}

func (c Content) serveController(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, debugPrefix), "/")
	handler := c.Debug(name)
	if handler == nil {
		http.NotFound(w, r)
		return
	}
	http.StripPrefix(debugPrefix+name, handler).ServeHTTP(w, r)
}

// maxLevel is the length of the largest log level, in bytes.
const maxLevel = 16

// serveVerbosity takes a log level.
func (c Content) serveVerbosity(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		http.Error(w, "unsupported http method", http.StatusNotAcceptable)
		return
	}
	level, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLevel))
	if err != nil {
		http.Error(w, "reading the level: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := c.SetVerbosity(string(level))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, answer+"\n")
}
