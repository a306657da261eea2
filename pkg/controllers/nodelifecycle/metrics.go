package nodelifecycle

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

const subsystem = "node_collector"

type controllerMetrics struct {
	health, size, unhealthy *metrics.GaugeVec
	evictions               *metrics.CounterVec
	node, pass              *metrics.Histogram
}

func newMetrics(r controller.MetricsRegistry) controllerMetrics {
	labels := []string{"zone"}
	m := controllerMetrics{
		health: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "zone_health", StabilityLevel: metrics.ALPHA,
			Help: "Gauge measuring percentage of healthy nodes per zone.",
		}, labels),
		size: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "zone_size", StabilityLevel: metrics.ALPHA,
			Help: "Gauge measuring number of registered Nodes per zones.",
		}, labels),
		unhealthy: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "unhealthy_nodes_in_zone", StabilityLevel: metrics.ALPHA,
			Help: "Gauge measuring number of not Ready Nodes per zones.",
		}, labels),
		evictions: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "evictions_total", StabilityLevel: metrics.STABLE,
			Help: "Number of Node evictions that happened since current instance of NodeController started.",
		}, labels),
		node: metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "update_node_health_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "Duration in seconds for NodeController to update the health of a single node.",
			Buckets: metrics.ExponentialBuckets(0.001, 4, 8),
		}),
		pass: metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "update_all_nodes_health_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "Duration in seconds for NodeController to update the health of all nodes.",
			Buckets: metrics.ExponentialBuckets(0.01, 4, 8),
		}),
	}
	r.MustRegister(m.health, m.size, m.unhealthy, m.evictions, m.node, m.pass)
	return m
}

// forget drops the series of a zone that has no nodes any more.
func (m controllerMetrics) forget(zone string) {
	series := map[string]string{"zone": zone}
	for _, of := range []*metrics.GaugeVec{m.size, m.health, m.unhealthy} {
		of.Delete(series)
	}
	m.evictions.Delete(series)
}

// counted records the nodes of a zone; one without any counts as healthy.
func (m controllerMetrics) counted(zone string, n count) {
	health := 100.0
	if n.all() > 0 {
		health = n.health()
	}
	m.size.WithLabelValues(zone).Set(float64(n.all()))
	m.health.WithLabelValues(zone).Set(health)
	m.unhealthy.WithLabelValues(zone).Set(float64(n.notReady))
}
