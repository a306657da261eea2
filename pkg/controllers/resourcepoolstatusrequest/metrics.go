package resourcepoolstatusrequest

import (
	"time"

	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

const subsystem = "resourcepoolstatusrequest_controller"

type controllerMetrics struct {
	processed, failed *metrics.CounterVec
	duration          *metrics.HistogramVec
	drivers           *controller.LabelValues
}

func newMetrics(r controller.MetricsRegistry) controllerMetrics {
	labels := []string{"driver_name"}
	m := controllerMetrics{
		processed: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "requests_processed_total", StabilityLevel: metrics.ALPHA,
			Help: "Total number of ResourcePoolStatusRequests processed",
		}, labels),
		failed: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "request_processing_errors_total", StabilityLevel: metrics.ALPHA,
			Help: "Total number of errors encountered while processing ResourcePoolStatusRequests",
		}, labels),
		duration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "request_processing_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "Time taken to process a ResourcePoolStatusRequest",
			Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
		}, labels),
		drivers: &controller.LabelValues{},
	}
	r.MustRegister(m.processed, m.failed, m.duration)
	return m
}

// attempted counts an attempt to answer a request about a driver.
func (m controllerMetrics) attempted(driver string, took time.Duration, err error) {
	driver = m.drivers.Of(driver)
	m.processed.WithLabelValues(driver).Inc()
	if err != nil {
		m.failed.WithLabelValues(driver).Inc()
	}
	m.duration.WithLabelValues(driver).Observe(took.Seconds())
}
