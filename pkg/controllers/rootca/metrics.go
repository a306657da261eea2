package rootca

import (
	"time"

	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// syncMetrics count and time reconciles by their HTTP status code.
type syncMetrics struct {
	total    *metrics.CounterVec
	duration *metrics.HistogramVec
}

func newSyncMetrics(registry controller.MetricsRegistry) *syncMetrics {
	const help = "Number of namespace syncs happened in root ca cert publisher."
	m := &syncMetrics{
		total: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: "root_ca_cert_publisher", Name: "sync_total",
			Help: help, StabilityLevel: metrics.ALPHA,
		}, []string{"code"}),
		duration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: "root_ca_cert_publisher", Name: "sync_duration_seconds",
			Help: help, StabilityLevel: metrics.ALPHA,
			Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
		}, []string{"code"}),
	}
	registry.MustRegister(m.total, m.duration)
	return m
}

func (m *syncMetrics) observe(took time.Duration, err error) {
	code := reconcile.StatusCode(err)
	m.total.WithLabelValues(code).Inc()
	m.duration.WithLabelValues(code).Observe(took.Seconds())
}
