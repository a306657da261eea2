package telemetry

import (
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/config/v1beta1"
)

// full is a registry of every kind of metric, with the label verb.
func full() *Registry {
	r := NewRegistry()
	counter := metrics.NewCounterVec(&metrics.CounterOpts{Name: "test_total", Help: "c"}, []string{"verb", "code"})
	depth := metrics.NewGaugeVec(&metrics.GaugeOpts{Name: "test_depth", Help: "g"}, []string{"verb"})
	took := metrics.NewHistogramVec(&metrics.HistogramOpts{Name: "test_seconds", Help: "h", Buckets: []float64{1, 10}}, []string{"verb"})
	r.MustRegister(counter, depth, took)
	for i, verb := range []string{"get", "put", "odd"} {
		counter.WithLabelValues(verb, "200").Add(float64(i + 1))
		depth.WithLabelValues(verb).Set(float64(i + 1))
		took.WithLabelValues(verb).Observe(float64(5 * i))
	}
	return r
}

func exposition(t *testing.T, c v1beta1.Metrics, manifest string) Exposition {
	t.Helper()
	e, err := newExposition(c, []byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// values are those of a family by the value of the label verb.
func values(f *dto.MetricFamily) map[string]float64 {
	all := map[string]float64{}
	for _, m := range f.GetMetric() {
		for _, l := range m.Label {
			if l.GetName() == "verb" {
				all[l.GetValue()] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
	}
	return all
}

func TestDisabledMetricsComeBack(t *testing.T) {
	h := NewHub()
	h.Attach(full())
	h.Expose(exposition(t, v1beta1.Metrics{DisabledMetrics: []string{"test_total", "go_goroutines"}}, ""))
	for _, gone := range []string{"test_total", "go_goroutines"} {
		if find(t, h, gone) != nil {
			t.Errorf("%s is disabled and shown", gone)
		}
	}
	if find(t, h, "test_depth") == nil {
		t.Error("another metric is not shown")
	}
	h.Expose(exposition(t, v1beta1.Metrics{}, ""))
	if f := find(t, h, "test_total"); len(f.GetMetric()) != 3 || find(t, h, "go_goroutines") == nil {
		t.Errorf("after they were enabled again: %v", f)
	}
}

func TestLabelValuesThatAreNotAllowedFallTogether(t *testing.T) {
	h := NewHub()
	h.Attach(full())
	mapping := map[string]string{"test_total,verb": "get", "test_depth,verb": "get", "test_seconds,verb": "get"}
	h.Expose(exposition(t, v1beta1.Metrics{AllowListMapping: mapping}, ""))
	for name, want := range map[string]map[string]float64{
		"test_total":   {"get": 1, "unexpected": 5},
		"test_depth":   {"get": 1, "unexpected": 5},
		"test_seconds": {"get": 0, "unexpected": 15},
	} {
		got := values(find(t, h, name))
		if len(got) != len(want) || got["get"] != want["get"] || got["unexpected"] != want["unexpected"] {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for _, m := range find(t, h, "test_seconds").Metric {
		if m.Label[0].GetValue() == "unexpected" {
			if b := m.Histogram.Bucket; m.Histogram.GetSampleCount() != 2 || b[0].GetCumulativeCount() != 0 || b[1].GetCumulativeCount() != 2 {
				t.Errorf("merged histogram: %v", m.Histogram)
			}
		}
	}
	h.Expose(exposition(t, v1beta1.Metrics{}, ""))
	if got := values(find(t, h, "test_total")); len(got) != 3 || got["odd"] != 3 {
		t.Errorf("without allow list: %v", got)
	}
}

// The file is read as the check of a configuration reads it, also when it changes. Pins MGR-246.
func TestAllowedValuesOfAManifest(t *testing.T) {
	c := v1beta1.Metrics{AllowListMappingManifest: "labels.yaml"}
	h := NewHub()
	h.Attach(full())
	h.Expose(exposition(t, c, `"test_total,verb": "put,odd"`))
	if got := values(find(t, h, "test_total")); len(got) != 3 || got["unexpected"] != 1 || got["odd"] != 3 {
		t.Errorf("got %v", got)
	}
	for _, bad := range []string{
		"- a", "test_total: get", "test_total,: get", "a: {b: c}",
		"", "test_total,verb: get\ntest_total,verb: put", "test total,verb: get",
	} {
		if _, err := newExposition(c, []byte(bad)); err == nil || !strings.Contains(err.Error(), "allowed label values") {
			t.Errorf("%q: got error %v", bad, err)
		}
	}
}

// Pins MGR-138.
func TestHiddenMetrics(t *testing.T) {
	now := semver.MustParse("1.36.3")
	for help, want := range map[string]bool{
		"[ALPHA] What it is":                                          false,
		"[ALPHA] (Deprecated since 1.36.0) What it was":               true,
		"[BETA] (Deprecated since 1.36.0) What it was":                false,
		"[BETA] (Deprecated since 1.35.0) What it was":                true,
		"[STABLE] (Deprecated since 1.34.0) What it was":              false,
		"[STABLE] (Deprecated since 1.33.0) What it was":              true,
		"[ALPHA] (Deprecated since 1.37.0) What it will be":           false,
		"[ALPHA] (Deprecated since 0.9.0) What it was":                true,
		"[ALPHA] What it is (Deprecated since 1.30.0 for reasons)":    false,
		"[STABLE] (Deprecated since 2.0.0) What it will be some time": false,
	} {
		if got := hidden(help, now); got != want {
			t.Errorf("hidden(%q) is %v", help, got)
		}
	}
}

// SetShowHidden of component-base cannot be taken back in a process, so this is one test, and
// it runs once however often tests are repeated. Pins MGR-215.
func TestHiddenMetricsAreShownOnRequest(t *testing.T) {
	if metrics.ShouldShowHidden() {
		t.Skip("hidden metrics are shown in this process since they were asked for")
	}
	h := NewHub()
	h.version = semver.MustParse("1.36.3")
	r := NewRegistry()
	r.version = h.version
	old := metrics.NewCounter(&metrics.CounterOpts{Name: "test_old_total", Help: "o", StabilityLevel: metrics.ALPHA, DeprecatedVersion: "1.35.0"})
	r.MustRegister(old)
	h.Attach(r)
	old.Inc()
	if find(t, h, "test_old_total") != nil {
		t.Error("shown without being asked for")
	}
	// An instance is built before the change is made that shows them, and its metrics are attached after that.
	built, other := NewRegistry(), metrics.NewCounter(&metrics.CounterOpts{
		Name: "test_old_of_instance_total", Help: "o", StabilityLevel: metrics.ALPHA, DeprecatedVersion: "1.35.0",
	})
	built.version = h.version
	built.MustRegister(other)
	h.Expose(exposition(t, v1beta1.Metrics{ShowHiddenMetricsForVersion: "1.35"}, ""))
	h.Attach(built)
	other.Inc()
	if f := find(t, h, "test_old_of_instance_total"); f == nil || f.Metric[0].Counter.GetValue() != 1 {
		t.Errorf("of an instance that was built before: %v, want what was counted since", f)
	}
	old.Inc()
	if f := find(t, h, "test_old_total"); f == nil || f.Metric[0].Counter.GetValue() != 1 {
		t.Errorf("shown on request: %v, want what was counted since", f)
	}
	h.Expose(exposition(t, v1beta1.Metrics{}, ""))
	if find(t, h, "test_old_total") != nil {
		t.Error("shown although the request was taken back")
	}
}
