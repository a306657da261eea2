package launch

import (
	"maps"
	"testing"

	"k8s.io/component-base/metrics"

	"kcmd.dev/test/must"
)

// What was counted is added once, by its labels, and what was cut off is read again.
func TestAdd(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	ended := metrics.NewCounterVec(&metrics.CounterOpts{Name: "ended_total"}, []string{"result", "reason"})
	unseen := metrics.NewCounterVec(&metrics.CounterOpts{Name: "unseen_total"}, []string{"result"})
	registry.MustRegister(ended, unseen)
	counters, counted := map[string]*metrics.CounterVec{"ended_total": ended, "unseen_total": unseen}, map[string]float64{}
	for _, step := range []struct {
		shown string
		want  map[string]float64
	}{
		{"# TYPE other counter\nother 7\n", map[string]float64{}},
		{"# TYPE ended_total counter\nended_total{reason=\"a\",result=\"good\"} 2\n", map[string]float64{"good a": 2}},
		{
			"# TYPE ended_total counter\nended_total{reason=\"a\",result=\"good\"} 3\nended_total{reason=\"\",result=\"bad\"} 1\n",
			map[string]float64{"good a": 3, "bad ": 1},
		},
		{"# TYPE ended_total counter\nended_total{reason=\"a\",resu", map[string]float64{"good a": 3, "bad ": 1}},
	} {
		add(counters, counted, step.shown)
		got := map[string]float64{}
		for _, family := range must.Get(registry.Gather())(t) {
			for _, series := range family.GetMetric() {
				labels := labelsOf(series)
				got[labels["result"]+" "+labels["reason"]] = series.GetCounter().GetValue()
			}
		}
		if !maps.Equal(got, step.want) {
			t.Errorf("after %q there is %v, want %v", step.shown, got, step.want)
		}
	}
}
