package telemetry

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

func gauge(queue string) *metrics.Gauge {
	return metrics.NewGauge(&metrics.GaugeOpts{Name: "test_depth", Help: "d", ConstLabels: map[string]string{"name": queue}})
}

func find(t *testing.T, h *Hub, name string) *dto.MetricFamily {
	t.Helper()
	families, err := h.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f
		}
	}
	return nil
}

// Pins MGR-180.
func TestMetricsComeAndGoWithTheirRegistry(t *testing.T) {
	h := NewHub()
	a, b := NewRegistry(), NewRegistry()
	a.MustRegister(gauge("a"))
	b.MustRegister(gauge("b"))
	if find(t, h, "test_depth") != nil {
		t.Error("shown before it was attached")
	}
	h.Attach(a)
	h.Attach(b)
	if f := find(t, h, "test_depth"); f == nil || len(f.Metric) != 2 {
		t.Errorf("two registries with one family: %v", f)
	}
	h.Detach(a)
	h.Detach(a)
	if f := find(t, h, "test_depth"); f == nil || len(f.Metric) != 1 || h.Attached() != 1 {
		t.Errorf("after one was detached: %v", f)
	}
	if find(t, h, "go_goroutines") == nil {
		t.Error("the metrics of the process are missing")
	}
}

func TestSeriesThatSeveralRegistriesHoldAreAddedUp(t *testing.T) {
	h := NewHub()
	for n, queues := range [][]string{{"shared", "one"}, {"shared", "two"}, {"shared"}} {
		r := NewRegistry()
		for _, queue := range queues {
			depth := gauge(queue)
			r.MustRegister(depth)
			depth.Set(float64(n + 1))
		}
		h.Attach(r)
	}
	got := map[string]float64{}
	for _, m := range find(t, h, "test_depth").Metric {
		got[m.Label[0].GetValue()] = m.Gauge.GetValue()
	}
	if want := map[string]float64{"shared": 6, "one": 1, "two": 2}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReloadMetricsFollowKubeAPIServer(t *testing.T) {
	r := NewRegistry()
	m := NewReload(r)
	m.InForce("aa")
	m.Record(Success, time.Unix(100, 500_000_000), time.Second)
	m.InForce("bb")
	m.Record(Failure, time.Unix(200, 0), time.Second)
	m.Record(Failure, time.Unix(300, 0), time.Second)
	want := `
# HELP kcmd_config_automatic_reload_last_timestamp_seconds [ALPHA] Timestamp of the last automatic reload of the configuration file by status.
# TYPE kcmd_config_automatic_reload_last_timestamp_seconds gauge
kcmd_config_automatic_reload_last_timestamp_seconds{status="failure"} 300
kcmd_config_automatic_reload_last_timestamp_seconds{status="success"} 100.5
# HELP kcmd_config_automatic_reloads_total [ALPHA] Total number of automatic reloads of the configuration file by status.
# TYPE kcmd_config_automatic_reloads_total counter
kcmd_config_automatic_reloads_total{status="failure"} 2
kcmd_config_automatic_reloads_total{status="success"} 1
# HELP kcmd_config_last_config_info [ALPHA] Information about the configuration in force, labelled with its hash.
# TYPE kcmd_config_last_config_info gauge
kcmd_config_last_config_info{hash="sha256:bb"} 1
`
	err := testutil.GatherAndCompare(r, strings.NewReader(want),
		"kcmd_config_automatic_reload_last_timestamp_seconds", "kcmd_config_automatic_reloads_total", "kcmd_config_last_config_info")
	if err != nil {
		t.Error(err)
	}
}

// What is the case now is a gauge of 0 or 1, and 0 at first.
func TestWhatIsTheCaseNowIsAGauge(t *testing.T) {
	r := metrics.NewKubeRegistry()
	m := NewReload(r)
	for name, record := range map[string]func(bool){
		"kcmd_config_rejected": m.Rejected, "kcmd_config_last_good_in_force": m.LastGood, "kcmd_config_not_kept": m.NotKept,
	} {
		value := func() float64 {
			families, err := r.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == name {
					return f.Metric[0].GetGauge().GetValue()
				}
			}
			t.Fatalf("there is no %s", name)
			return 0
		}
		got := []float64{value()}
		for _, is := range []bool{true, false} {
			record(is)
			got = append(got, value())
		}
		if want := []float64{0, 1, 0}; !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
