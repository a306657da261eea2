package serving

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/compatibility"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/config/v1beta1"
)

func TestTheFormThatIsAccepted(t *testing.T) {
	const structured = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"
	for header, want := range map[string]form{
		"": formText, " ": formText, "*/*": formText, "text/plain": formText, "text/plain; charset=utf-8": formText,
		"text/html":        formPage,
		"application/json": formJSON,
		structured:         formStructured,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": formPage, // browsers
		"application/json, */*":                                 formJSON, // kubectl get --raw
		"text/plain;q=0.5, text/html;q=0.4":                     formText,
		"text/html;q=0.1, " + structured:                        formStructured,
		"application/yaml":                                      formStructured, // refused by upstream's negotiation
		"image/png, text/plain":                                 formText,
		"application/vnd.kubernetes.protobuf":                   formStructured,
		"nonsense":                                              formStructured,
		"text/html;q=0, application/json;q=0.1":                 formJSON,
		"text/html;q=x, application/json;q=0.1":                 formJSON,
		"application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz": formStructured,
	} {
		if got := accepted(header); got != want {
			t.Errorf("%q is form %d, want %d", header, got, want)
		}
	}
}

// site is content with something of everything.
func site() Content {
	return Content{
		Health:  []healthz.HealthChecker{healthz.PingHealthz},
		Metrics: prometheus.NewRegistry(),
		Config:  func() map[string]any { return map[string]any{"config.kcmd.dev": "c"} },
		Flags: func() map[string]string {
			return map[string]string{"config": "/etc/kcmd.yaml", "serving.port": "10257"}
		},
		Debug: func(string) http.Handler { return nil },
		SetVerbosity: func(level string) (string, error) {
			return "successfully set klog.logging.verbosity to " + level, nil
		},
		Status: Status{
			Version: func() basecompatibility.EffectiveVersion {
				v := compatibility.DefaultKubeEffectiveVersionForTest()
				v.SetEmulationVersion(version.MajorMinor(1, 34))
				return v
			},
			JSON: func() any { return map[string]string{"version": "v1"} },
			Text: func() string { return "controllers here" },
			Page: func(refresh time.Duration) ([]byte, string, error) {
				return []byte("<p>" + refresh.String()), "default-src 'none'", nil
			},
		},
	}
}

func get(h http.Handler, path, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Pins MGR-189.
func TestStatuszInEveryForm(t *testing.T) {
	h := site().Handler(v1beta1.Serving{Profiling: ptr.To(true)})
	text := get(h, "/statusz", "")
	for _, part := range []string{"kube-controller-manager statusz\nWarning: This endpoint is not meant to be machine parseable", "Go version", "Paths", "/configz /debug /flagz /healthz /livez /metrics /readyz /statusz", "controllers here"} {
		if !strings.Contains(text.Body.String(), part) {
			t.Errorf("the text does not contain %q:\n%s", part, text.Body)
		}
	}
	if got := text.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("text has type %q", got)
	}
	for _, w := range []*httptest.ResponseRecorder{get(h, "/statusz", "application/json"), get(h, "/statusz?format=json", "")} {
		var status map[string]string
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status["version"] != "v1" {
			t.Errorf("JSON: %v, %s", err, w.Body)
		}
	}
	page := get(h, "/statusz?refresh=5", "text/html,*/*;q=0.8")
	if page.Body.String() != "<p>5s" || page.Header().Get("Content-Security-Policy") != "default-src 'none'" ||
		page.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("page: %v %s", page.Header(), page.Body)
	}
	for _, odd := range []string{"0", "-1", "3601", "x", `5"><script>`} {
		if got := get(h, "/statusz?refresh="+strings.ReplaceAll(odd, `"`, "%22"), "text/html").Body.String(); got != "<p>0s" {
			t.Errorf("refresh=%s makes %q", odd, got)
		}
	}
}

// Pins MGR-107, MGR-108 and MGR-112.
func TestZPagesInUpstreamsForms(t *testing.T) {
	h := site().Handler(v1beta1.Serving{Profiling: ptr.To(false)})
	for kind, path := range map[string]string{"Statusz": "/statusz", "Flagz": "/flagz"} {
		for media, decode := range map[string]func([]byte, any) error{
			"application/json": json.Unmarshal,
			"application/yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) },
		} {
			w := get(h, path, media+";v=v1beta1;g=config.k8s.io;as="+kind)
			var got struct {
				Kind, APIVersion string
				Metadata         struct{ Name string }
				Flags            map[string]string
				BinaryVersion    string
				EmulationVersion string
			}
			if err := decode(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
				t.Errorf("%s as %s: %d, %v: %s", path, media, w.Code, err, w.Body)
				continue
			}
			if got.Kind != kind || got.APIVersion != "config.k8s.io/v1beta1" || got.Metadata.Name != component {
				t.Errorf("%s as %s is %+v", path, media, got)
			}
			if (kind == "Flagz") != (got.Flags["serving.port"] == "10257") || (kind == "Statusz") != (got.BinaryVersion != "") || (kind == "Statusz") != (got.EmulationVersion == "1.34") {
				t.Errorf("%s as %s is %+v", path, media, got)
			}
		}
		old := get(h, path, "application/json;v=v1alpha1;g=config.k8s.io;as="+kind)
		if old.Code != http.StatusOK || !strings.Contains(old.Header().Get("Warning"), "deprecated") {
			t.Errorf("%s v1alpha1: %d, warning %q", path, old.Code, old.Header().Get("Warning"))
		}
		if got := get(h, path, "application/yaml"); got.Code != http.StatusNotAcceptable {
			t.Errorf("%s as plain YAML: %d", path, got.Code)
		}
	}
	if got := get(h, "/flagz", "application/json"); got.Code != http.StatusNotAcceptable {
		t.Errorf("/flagz as plain JSON: %d", got.Code)
	}
}

// Flags change with the configuration, so that none may be remembered. Pins MGR-189.
func TestFlagzIsNotRemembered(t *testing.T) {
	c := site()
	value := "1"
	c.Flags = func() map[string]string { return map[string]string{"a.b": value} }
	h := c.Handler(v1beta1.Serving{Profiling: ptr.To(false)})
	if got := get(h, "/flagz", "").Body.String(); !strings.HasPrefix(got, "\nkube-controller-manager flagz\nWarning: ") || !strings.Contains(got, "\na.b=1\n") {
		t.Errorf("got %q", got)
	}
	value = "2"
	if got := get(h, "/flagz", "*/*").Body.String(); !strings.Contains(got, "\na.b=2\n") {
		t.Errorf("got %q", got)
	}
}

func TestWhatCanOnlyBeRead(t *testing.T) {
	h := site().Handler(v1beta1.Serving{Profiling: ptr.To(true)})
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/healthz/ping", "/metrics", "/configz", "/statusz", "/flagz"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("x")))
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s is answered with %d", method, path, w.Code)
			}
		}
	}
}

// Pins MGR-110.
func TestTheVerbosityIsPut(t *testing.T) {
	h := site().Handler(v1beta1.Serving{Profiling: ptr.To(true)})
	put := func(body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/debug/flags/v", bytes.NewBufferString(body)))
		return w
	}
	if w := put("4"); w.Code != http.StatusOK || w.Body.String() != "successfully set klog.logging.verbosity to 4\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if w := put(strings.Repeat("4", maxLevel+1)); w.Code != http.StatusBadRequest {
		t.Errorf("a body that is too long: %d %q", w.Code, w.Body)
	}
	if w := get(h, "/debug/flags/v", ""); w.Code != http.StatusNotAcceptable {
		t.Errorf("GET: %d", w.Code)
	}
	off := site().Handler(v1beta1.Serving{Profiling: ptr.To(false)})
	for _, path := range []string{"/debug/flags/v", "/debug/flags", "/debug/pprof/", "/debug/pprof/heap"} {
		if w := get(off, path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s without profiling: %d", path, w.Code)
		}
	}
}
