package pvbinder

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/volumes/operations"
)

// classMetrics count the claims that were given the default class.
type classMetrics struct {
	assigned, failed *metrics.Counter
}

func newClassMetrics(r controller.MetricsRegistry) classMetrics {
	m := classMetrics{
		assigned: metrics.NewCounter(&metrics.CounterOpts{
			Name: "retroactive_storageclass_total", StabilityLevel: metrics.ALPHA,
			Help: "Total number of retroactive StorageClass assignments to persistent volume claim",
		}),
		failed: metrics.NewCounter(&metrics.CounterOpts{
			Name: "retroactive_storageclass_errors_total", StabilityLevel: metrics.ALPHA,
			Help: "Total number of failed retroactive StorageClass assignments to persistent volume claim",
		}),
	}
	r.MustRegister(m.assigned, m.failed)
	return m
}

// operationMetrics show how long it takes to provision and to delete volumes, and what fails.
type operationMetrics struct {
	latency   *metrics.HistogramVec
	errors    *metrics.CounterVec
	oldErrors *metrics.CounterVec // hidden unless hidden metrics are shown
	// plugin measures the operations of the plugins of this controller.
	plugin operations.Metrics
}

func newOperationMetrics(r controller.MetricsRegistry) *operationMetrics {
	labels := []string{"plugin_name", "operation_name"}
	m := &operationMetrics{
		latency: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: "volume_operation_total_seconds", StabilityLevel: metrics.ALPHA,
			Help: "Total volume operation time", Buckets: operations.Buckets(),
		}, labels),
		errors: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "volume_operation_errors_total", StabilityLevel: metrics.ALPHA,
			Help: "Total volume operation errors",
		}, labels),
		oldErrors: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "volume_operation_total_errors", StabilityLevel: metrics.ALPHA, DeprecatedVersion: "1.36.0",
			Help: "Total volume operation errors",
		}, labels),
		plugin: operations.New(r),
	}
	r.MustRegister(m.latency, m.errors, m.oldErrors)
	return m
}
