package clustertrustbundle

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
	m := &syncMetrics{
		total: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: "clustertrustbundle_publisher", Name: "sync_total",
			Help: "Number of syncs that occurred in cluster trust bundle publisher.", StabilityLevel: metrics.ALPHA,
		}, []string{"code"}),
		duration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: "clustertrustbundle_publisher", Name: "sync_duration_seconds",
			Help: "The time it took to sync a cluster trust bundle.", StabilityLevel: metrics.ALPHA,
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
