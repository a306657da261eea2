package election

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/runtime/telemetry"
)

// Metrics receives what an Elector does. lease is the name of the Lease.
type Metrics interface {
	// SetLeading records whether this process holds the lease.
	SetLeading(lease string, leading bool)
	// Forget ends what SetLeading has recorded: this process does not contend for the lease any more.
	Forget(lease string)
	// SlowPath counts a renewal that had to read the lease first.
	SlowPath(lease string)
}

// NewMetrics registers client-go's metrics of leader election: leader_election_master_status and
// leader_election_slowpath_total.
func NewMetrics(r telemetry.Registerer) Metrics {
	m := &prometheusMetrics{
		leading: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name:           "leader_election_master_status",
			StabilityLevel: metrics.ALPHA,
			Help:           "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
		}, []string{"name"}),
		slowPath: metrics.NewCounterVec(&metrics.CounterOpts{
			Name:           "leader_election_slowpath_total",
			StabilityLevel: metrics.ALPHA,
			Help:           "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.",
		}, []string{"name"}),
	}
	r.MustRegister(m.leading, m.slowPath)
	return m
}

type prometheusMetrics struct {
	leading  *metrics.GaugeVec
	slowPath *metrics.CounterVec
}

func (m *prometheusMetrics) SetLeading(lease string, leading bool) {
	value := 0.0
	if leading {
		value = 1
	}
	m.leading.WithLabelValues(lease).Set(value)
}

func (m *prometheusMetrics) Forget(lease string) { m.leading.DeleteLabelValues(lease) }

func (m *prometheusMetrics) SlowPath(lease string) { m.slowPath.WithLabelValues(lease).Inc() }

// noMetrics is used without Options.Metrics.
type noMetrics struct{}

func (noMetrics) SetLeading(string, bool) {}
func (noMetrics) Forget(string)           {}
func (noMetrics) SlowPath(string)         {}
