package runtime

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/runtime/informers"
)

// cacheCounts shows how many caches are filled, above all those of a standby: what it would have
// to wait for before its controllers start. Nothing is counted before it is scraped.
type cacheCounts struct {
	metrics.BaseStableCollector
	// of returns the informers in force, nil if there are none yet.
	of   func() *informers.Informers
	desc *metrics.Desc
}

func newCacheCounts(of func() *informers.Informers) *cacheCounts {
	return &cacheCounts{of: of, desc: metrics.NewDesc("kcmd_caches",
		"Number of caches that are kept, by state: synced, or filling if one has never been complete.", []string{"state"}, nil, metrics.ALPHA, "")}
}

// DescribeWithStability implements metrics.StableCollector.
func (c *cacheCounts) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- c.desc }

// CollectWithStability implements metrics.StableCollector.
func (c *cacheCounts) CollectWithStability(ch chan<- metrics.Metric) {
	synced, filling := 0, 0
	if i := c.of(); i != nil {
		synced, filling = i.Count()
	}
	ch <- metrics.NewLazyConstMetric(c.desc, metrics.GaugeValue, float64(synced), "synced")
	ch <- metrics.NewLazyConstMetric(c.desc, metrics.GaugeValue, float64(filling), "filling")
}

// informers returns those of the connection in force, nil if there is none.
func (r *Runtime) informers() *informers.Informers {
	if conn := r.connectionInForce(); conn != nil {
		return conn.Informers()
	}
	return nil
}
