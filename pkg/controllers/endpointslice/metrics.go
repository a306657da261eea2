package endpointslice

import (
	"errors"

	"k8s.io/endpointslice/metrics"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
)

// registerMetrics exposes the metrics of the library while the instance runs. They are
// variables of the library, so counters and histograms go on from where the previous
// instance left them.
func registerMetrics(registry controller.MetricsRegistry) {
	registry.MustRegister(
		metrics.EndpointsAddedPerSync,
		metrics.EndpointsRemovedPerSync,
		metrics.EndpointsDesired,
		metrics.NumEndpointSlices,
		metrics.DesiredEndpointSlices,
		metrics.EndpointSliceChanges,
		metrics.EndpointSlicesChangedPerSync,
		metrics.EndpointSliceSyncs,
		metrics.ServicesCountByTrafficDistribution,
	)
}

// resetGauges removes the sums over all Services, which are wrong once nobody adds to
// them. The next instance starts them from zero.
func resetGauges() {
	metrics.EndpointsDesired.Reset()
	metrics.NumEndpointSlices.Reset()
	metrics.DesiredEndpointSlices.Reset()
	metrics.ServicesCountByTrafficDistribution.Reset()
}

func countSync(err error) {
	metrics.EndpointSliceSyncs.WithLabelValues(syncResult(err)).Inc()
}

func syncResult(err error) string {
	if err == nil {
		return "success"
	}
	if errors.Is(err, slicewrites.ErrStaleCache) {
		return "stale"
	}
	return "error"
}
