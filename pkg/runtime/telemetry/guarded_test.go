package telemetry

import (
	"strings"
	"testing"

	"k8s.io/component-base/metrics"
)

// broken is a collector that shows one series and panics.
type broken struct {
	metrics.BaseStableCollector
	desc *metrics.Desc
}

func (b *broken) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- b.desc }

func (b *broken) CollectWithStability(ch chan<- metrics.Metric) {
	ch <- metrics.NewLazyConstMetric(b.desc, metrics.GaugeValue, 1, "a")
	ch <- metrics.NewLazyConstMetric(b.desc, metrics.GaugeValue, 1, "\xff")
}

// A collector that panics hides no other metric, and the scrape reports it.
//
// Pins MGR-192.
func TestACollectorThatPanicsDoesNotEndTheProcess(t *testing.T) {
	h, r := NewHub(), NewRegistry()
	r.CustomMustRegister(&broken{desc: metrics.NewDesc("test_broken", "b", []string{"of"}, nil, metrics.ALPHA, "")})
	r.MustRegister(gauge("a"))
	h.Attach(r)
	for range 2 {
		families, err := h.Gather()
		if err == nil || !strings.Contains(err.Error(), "not valid UTF-8") || strings.Contains(err.Error(), "goroutine") {
			t.Errorf("got error %v", err)
		}
		series := map[string]int{}
		for _, f := range families {
			series[f.GetName()] = len(f.Metric)
		}
		if series["test_broken"] != 1 || series["test_depth"] != 1 || series["go_goroutines"] != 1 {
			t.Errorf("the numbers of series are %v", series)
		}
	}
}
