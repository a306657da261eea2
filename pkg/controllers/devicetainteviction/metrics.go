package devicetainteviction

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

type controllerMetrics struct {
	deletions *metrics.Counter
	delay     *metrics.Histogram
}

func newMetrics(r controller.MetricsRegistry) controllerMetrics {
	m := controllerMetrics{
		deletions: metrics.NewCounter(&metrics.CounterOpts{
			Subsystem: "device_taint_eviction_controller", Name: "pod_deletions_total", StabilityLevel: metrics.ALPHA,
			Help: "Total number of Pods deleted by DeviceTaintEvictionController since its start.",
		}),
		delay: metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: "device_taint_eviction_controller", Name: "pod_deletion_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help: "Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion " +
				"via DeviceTaintEvictionController.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		}),
	}
	r.MustRegister(m.deletions, m.delay)
	return m
}
