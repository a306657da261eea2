package replicaset

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/writes"
)

const subsystem = "replicaset_controller"

type controllerMetrics struct {
	sortingDeletionAgeRatio *metrics.Histogram
	staleSyncs              writes.StaleSyncs
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
		staleSyncs: writes.NewStaleSyncs(registry, subsystem),
	}
	registry.MustRegister(m.sortingDeletionAgeRatio)
	return m
}
