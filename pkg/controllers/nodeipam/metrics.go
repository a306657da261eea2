package nodeipam

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

const subsystem = "node_ipam_controller"

type controllerMetrics struct {
	allocations, releases *metrics.CounterVec
	maximum, usage        *metrics.GaugeVec
	tries                 *metrics.HistogramVec
	running               *metrics.GaugeVec
}

func newMetrics(r controller.MetricsRegistry) controllerMetrics {
	labels := []string{"clusterCIDR"}
	m := controllerMetrics{
		allocations: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "cidrset_cidrs_allocations_total", StabilityLevel: metrics.ALPHA,
			Help: "Counter measuring total number of CIDR allocations.",
		}, labels),
		releases: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "cidrset_cidrs_releases_total", StabilityLevel: metrics.ALPHA,
			Help: "Counter measuring total number of CIDR releases.",
		}, labels),
		maximum: metrics.NewGaugeVec(&metrics.GaugeOpts{
			// The name keeps the spelling of upstream, which dashboards depend on.
			Subsystem: subsystem, Name: "cirdset_max_cidrs", StabilityLevel: metrics.ALPHA,
			Help: "Maximum number of CIDRs that can be allocated.",
		}, labels),
		usage: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "cidrset_usage_cidrs", StabilityLevel: metrics.ALPHA,
			Help: "Gauge measuring share of allocated CIDRs.",
		}, labels),
		tries: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "cidrset_allocation_tries_per_request", StabilityLevel: metrics.ALPHA,
			Help:    "Histogram measuring CIDR allocation tries per request.",
			Buckets: metrics.ExponentialBuckets(1, 5, 5),
		}, labels),
		running: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "running_managed_controllers", StabilityLevel: metrics.BETA,
			Help: "Indicates where instances of a controller are currently running",
		}, []string{"name", "manager"}),
	}
	r.MustRegister(m.allocations, m.releases, m.maximum, m.usage, m.tries, m.running)
	return m
}

// runs records whether the instance runs, under the name by which dashboards know the controller.
func (m controllerMetrics) runs(yes bool) {
	value := 0.0
	if yes {
		value = 1
	}
	m.running.WithLabelValues("nodeipam", "kube-controller-manager").Set(value)
}

// created records the size of a set.
func (m controllerMetrics) created(s *blockSet) {
	m.maximum.WithLabelValues(s.cluster.String()).Set(float64(s.size))
}

// passed records how many held blocks were skipped to find a free one.
func (m controllerMetrics) passed(s *blockSet, blocks int) {
	m.tries.WithLabelValues(s.cluster.String()).Observe(float64(blocks))
}

// changed records that blocks of a set that were free are held, or the reverse.
func (m controllerMetrics) changed(s *blockSet, taken, freed int) {
	if taken == 0 && freed == 0 {
		return
	}
	label := s.cluster.String()
	if taken > 0 {
		m.allocations.WithLabelValues(label).Add(float64(taken))
	}
	if freed > 0 {
		m.releases.WithLabelValues(label).Add(float64(freed))
	}
	m.usage.WithLabelValues(label).Set(float64(s.used) / float64(s.size))
}
