package ttlafterfinished

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

type controllerMetrics struct {
	deletionDelay *metrics.Histogram
}

func newMetrics(r controller.MetricsRegistry) controllerMetrics {
	m := controllerMetrics{
		deletionDelay: metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: "ttl_after_finished_controller", Name: "job_deletion_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "The time it took to delete the job since it became eligible for deletion",
			Buckets: metrics.ExponentialBuckets(0.1, 2, 14),
		}),
	}
	r.MustRegister(m.deletionDelay)
	return m
}
