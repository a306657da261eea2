package replicaset

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

const subsystem = "replicaset_controller"

type controllerMetrics struct {
	sortingDeletionAgeRatio *metrics.Histogram
	staleSyncSkips          *metrics.CounterVec
}

func newMetrics(registry controller.MetricsRegistry) *controllerMetrics {
	m := &controllerMetrics{
		sortingDeletionAgeRatio: metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: subsystem,
			Name:      "sorting_deletion_age_ratio",
			Help: "Age of each ready pod chosen for deletion in multiples of the age of the youngest ready pod, in whole numbers. " +
				"Less than 2 means that pods of similar age are deleted.",
			Buckets:        metrics.ExponentialBuckets(0.25, 2, 6),
			StabilityLevel: metrics.ALPHA,
		}),
		staleSyncSkips: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem:      subsystem,
			Name:           "stale_sync_skips_total",
			Help:           "Number of reconciles skipped because the cache of a resource did not show the controller's own last write yet.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"group", "resource"}),
	}
	if registry != nil {
		registry.MustRegister(m.sortingDeletionAgeRatio, m.staleSyncSkips)
	}
	return m
}

func (m *controllerMetrics) staleSyncSkipped(resource schema.GroupResource) {
	m.staleSyncSkips.WithLabelValues(resource.Group, resource.Resource).Inc()
}
