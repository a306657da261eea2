package ephemeralvolume

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

type controllerMetrics struct {
	creations *metrics.Counter // attempts, successful or not
	failures  *metrics.Counter
}

func newMetrics(r controller.MetricsRegistry) controllerMetrics {
	counter := func(name string) *metrics.Counter {
		return metrics.NewCounter(&metrics.CounterOpts{
			Subsystem: "ephemeral_volume_controller", Name: name, StabilityLevel: metrics.ALPHA,
			Help: "Number of PersistentVolumeClaim creation requests",
		})
	}
	m := controllerMetrics{creations: counter("create_total"), failures: counter("create_failures_total")}
	r.MustRegister(m.creations, m.failures)
	return m
}
