package writes

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

// StaleSyncs counts the reconciles that were skipped because a cache was stale.
type StaleSyncs struct{ skips *metrics.CounterVec }

// NewStaleSyncs registers the counter of the controller whose metrics have the subsystem.
func NewStaleSyncs(registry controller.MetricsRegistry, subsystem string) StaleSyncs {
	skips := metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem,
		Name:      "stale_sync_skips_total",
		Help: "Number of reconciles skipped because the cache of a resource did not show " +
			"the controller's own last write yet.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"group", "resource"})
	registry.MustRegister(skips)
	return StaleSyncs{skips: skips}
}

// Skipped counts a reconcile that was skipped because of the cache of a resource.
func (s StaleSyncs) Skipped(resource schema.GroupResource) {
	s.skips.WithLabelValues(resource.Group, resource.Resource).Inc()
}
