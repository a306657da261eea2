package endpointslicemirroring

import (
	"slices"
	"testing"
)

// Pins EPM-26.
func TestMetrics(t *testing.T) {
	few := config{concurrentSyncs: 1, maxEndpoints: 2}
	b := newBench(t, few, testService(nil), testEndpoints(subset(80, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nil))).begin(t)
	b.MustReconcile(t)
	b.observed(t)
	b.Cache(t, oneAddress())
	b.MustReconcile(t)
	const prefix = "endpoint_slice_mirroring_controller_"
	for name, want := range map[string]float64{
		"changes create": 1, "changes update": 1, "desired_endpoint_slices": 1, "endpoints_desired": 1, "num_endpoint_slices": 1,
	} {
		if got := value(t, b, prefix+name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]float64{"endpoints_added_per_sync": 2, "endpoints_updated_per_sync": 0, "endpoints_removed_per_sync": 1, "addresses_skipped_per_sync": 1} {
		if sum, count := histogram(t, b, prefix+name); sum != want || count != 2 {
			t.Errorf("%s: sum %v of %v, want %v of 2", name, sum, count, want)
		}
	}
	if _, count := histogram(t, b, prefix+"endpoints_sync_duration"); count != 2 {
		t.Errorf("%v durations, want 2", count)
	}
	b.c.metrics.totals.forget(web)
	if b.c.metrics.totals.sum != (total{}) || len(b.c.metrics.totals.of) != 0 {
		t.Errorf("forgotten Endpoints still count: %+v", b.c.metrics.totals.sum)
	}
}

// Pins EPM-39.
func TestGaugesStartFromZero(t *testing.T) {
	b := newBench(t, defaults, testService(nil), oneAddress()).begin(t)
	b.MustReconcile(t)
	next := newBench(t, defaults, testService(nil), oneAddress(), b.stored(t)[0])
	next.Succession.Leave(b.Succession.HandOver())
	next.begin(t)
	gauges := func(want string) {
		t.Helper()
		for _, name := range []string{"desired_endpoint_slices", "endpoints_desired", "num_endpoint_slices"} {
			if got := next.Series(t, "endpoint_slice_mirroring_controller_"+name); !slices.Equal(got, []string{want}) {
				t.Errorf("%s is %q, want %s", name, got, want)
			}
		}
	}
	gauges("0")
	next.MustReconcile(t)
	gauges("1")
}

// value is that of a counter or gauge, whose name may be followed by a label value.
func value(t *testing.T, b *bench, name string) float64 {
	t.Helper()
	families, err := b.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			full := f.GetName()
			for _, l := range m.GetLabel() {
				full += " " + l.GetValue()
			}
			if full == name {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func histogram(t *testing.T, b *bench, name string) (sum float64, count uint64) {
	t.Helper()
	families, err := b.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			h := f.GetMetric()[0].GetHistogram()
			return h.GetSampleSum(), h.GetSampleCount()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0, 0
}
