package garbagecollector

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

// counter is the part of a metric used here.
type counter interface{ Inc() }

// newSyncFailed returns the counter of failures to synchronize the watched with the served
// resources.
func newSyncFailed(registry controller.MetricsRegistry) counter {
	failed := metrics.NewCounter(&metrics.CounterOpts{
		Subsystem:      "garbagecollector_controller",
		Name:           "resources_sync_error_total",
		Help:           "Number of garbage collector resources sync errors",
		StabilityLevel: metrics.ALPHA,
	})
	registry.MustRegister(failed)
	return failed
}
