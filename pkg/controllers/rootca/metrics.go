package rootca

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controllers/kit/controller"
)

// syncMetrics count and time the reconciles by the HTTP code they ended with.
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
	if registry != nil {
		registry.MustRegister(m.total, m.duration)
	}
	return m
}

func (m *syncMetrics) observe(took time.Duration, err error) {
	code := statusCode(err)
	m.total.WithLabelValues(code).Inc()
	m.duration.WithLabelValues(code).Observe(took.Seconds())
}

// statusCode is the HTTP code of the API error behind err, 500 for any other error.
func statusCode(err error) string {
	if err == nil {
		return strconv.Itoa(http.StatusOK)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code != 0 {
		return strconv.Itoa(int(status.Status().Code))
	}
	return strconv.Itoa(http.StatusInternalServerError)
}
