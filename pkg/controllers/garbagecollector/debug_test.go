package garbagecollector

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"kcmd.dev/pkg/controller"
)

// Pins GC-6 and GC-62.
func TestDebuggingHandler(t *testing.T) {
	w := newWorld(t)
	if _, ok := controller.Controller(w.collector).(controller.Debuggable); !ok {
		t.Error("nothing is served below /debug/controllers")
	}
	for path, want := range map[string]int{"/graph": http.StatusOK, "/graph?uid=x": http.StatusOK, "/": http.StatusNotFound, "/graph/x": http.StatusNotFound} {
		recorder := httptest.NewRecorder()
		w.DebuggingHandler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		if recorder.Code != want {
			t.Errorf("%s: %d, want %d", path, recorder.Code, want)
		}
		if want != http.StatusOK {
			continue
		}
		if h := recorder.Header(); h.Get("Content-Type") != "text/vnd.graphviz" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers are %v", path, h)
		}
	}
}
