package endpointslicemirroring

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

const subsystem = "endpoint_slice_mirroring_controller"

// metricSet is the metrics of one instance.
type metricSet struct {
	endpointsAdded   *metrics.Histogram
	endpointsUpdated *metrics.Histogram
	endpointsRemoved *metrics.Histogram
	addressesSkipped *metrics.Histogram
	syncDuration     *metrics.Histogram
	changes          *metrics.CounterVec
	totals           *totals
}

func newMetrics(registry controller.MetricsRegistry) *metricSet {
	perSync := func(name, help string) *metrics.Histogram {
		return metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
			Buckets: metrics.ExponentialBuckets(2.0, 2.0, 15),
		})
	}
	gauge := func(name, help string) *metrics.Gauge {
		return metrics.NewGauge(&metrics.GaugeOpts{
			Subsystem:      subsystem,
			Name:           name,
			Help:           help,
			StabilityLevel: metrics.ALPHA,
		})
	}
	m := &metricSet{
		endpointsAdded:   perSync("endpoints_added_per_sync", "Number of endpoints added on each Endpoints sync"),
		endpointsUpdated: perSync("endpoints_updated_per_sync", "Number of endpoints updated on each Endpoints sync"),
		endpointsRemoved: perSync("endpoints_removed_per_sync", "Number of endpoints removed on each Endpoints sync"),
		addressesSkipped: perSync("addresses_skipped_per_sync",
			"Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset"),
		syncDuration: metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "endpoints_sync_duration", StabilityLevel: metrics.ALPHA,
			Help:    "Duration of syncEndpoints() in seconds",
			Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
		}),
		changes: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "changes", StabilityLevel: metrics.ALPHA,
			Help: "Number of EndpointSlice changes",
		}, []string{"operation"}),
		totals: &totals{
			of:            map[types.NamespacedName]total{},
			endpoints:     gauge("endpoints_desired", "Number of endpoints desired"),
			slices:        gauge("num_endpoint_slices", "Number of EndpointSlices"),
			desiredSlices: gauge("desired_endpoint_slices", "Number of EndpointSlices that would exist with perfect endpoint allocation"),
		},
	}
	registry.MustRegister(m.endpointsAdded, m.endpointsUpdated, m.endpointsRemoved, m.addressesSkipped, m.syncDuration,
		m.changes, m.totals.endpoints, m.totals.slices, m.totals.desiredSlices)
	return m
}

// observe counts what a plan does to endpoints.
func (m *metricSet) observe(p *plan) {
	m.endpointsAdded.Observe(float64(p.endpoints.added))
	m.endpointsUpdated.Observe(float64(p.endpoints.updated))
	m.endpointsRemoved.Observe(float64(p.endpoints.removed))
}

// total is what one Endpoints object adds to the gauges.
type total struct{ endpoints, slices, desiredSlices int }

// totals of a plan, once it is carried out.
func (p *plan) totals(groups int) total {
	return total{
		endpoints:     p.desired,
		slices:        len(p.create) + len(p.update) + len(p.unchanged),
		desiredSlices: groups,
	}
}

// totals keeps the gauges at the sums over all Endpoints.
type totals struct {
	endpoints, slices, desiredSlices *metrics.Gauge

	mu  sync.Mutex
	of  map[types.NamespacedName]total
	sum total
}

func (t *totals) set(id types.NamespacedName, now total) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(id, now)
	t.of[id] = now
}

func (t *totals) forget(id types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(id, total{})
	delete(t.of, id)
}

// add replaces what is known of Endpoints in the sums.
func (t *totals) add(id types.NamespacedName, now total) {
	was := t.of[id]
	t.sum.endpoints += now.endpoints - was.endpoints
	t.sum.slices += now.slices - was.slices
	t.sum.desiredSlices += now.desiredSlices - was.desiredSlices
	t.endpoints.Set(float64(t.sum.endpoints))
	t.slices.Set(float64(t.sum.slices))
	t.desiredSlices.Set(float64(t.sum.desiredSlices))
}
