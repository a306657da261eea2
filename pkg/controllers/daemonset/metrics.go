package daemonset

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

type controllerMetrics struct {
	staleSyncSkips *metrics.CounterVec
}

func newMetrics(registry controller.MetricsRegistry) *controllerMetrics {
	m := &controllerMetrics{
		staleSyncSkips: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem:      "daemonset_controller",
			Name:           "stale_sync_skips_total",
			Help:           "Number of reconciles skipped because the cache of a resource did not show the controller's own last write yet.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"group", "resource"}),
	}
	if registry != nil {
		registry.MustRegister(m.staleSyncSkips)
	}
	return m
}

func (m *controllerMetrics) staleSyncSkipped(resource schema.GroupResource) {
	m.staleSyncSkips.WithLabelValues(resource.Group, resource.Resource).Inc()
}
