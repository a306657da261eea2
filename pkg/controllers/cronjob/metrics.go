package cronjob

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

type controllerMetrics struct {
	creationSkew *metrics.Histogram
}

func newMetrics(r controller.MetricsRegistry) controllerMetrics {
	m := controllerMetrics{
		creationSkew: metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds", StabilityLevel: metrics.STABLE,
			Help:    "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
			Buckets: metrics.ExponentialBuckets(1, 2, 10),
		}),
	}
	r.MustRegister(m.creationSkew)
	return m
}
