package garbagecollector

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controllers/kit/controller"
)

// counter is the part of a metric that is used.
type counter interface{ Inc() }

// newSyncFailed counts the failures to bring what is watched in line with what is served.
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
