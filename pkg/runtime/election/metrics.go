package election

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
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

// Registry is the part of a metrics registry that NewMetrics needs, for instance
// legacyregistry's.
type Registry interface {
	Register(metrics.Registerable) error
}

// NewMetrics registers client-go's metrics of leader election,
// leader_election_master_status and leader_election_slowpath_total. If they are registered
// already, by component-base or an earlier call, those are used.
func NewMetrics(r Registry) (Metrics, error) {
	leading, err := registered(r, metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "leader_election_master_status",
		StabilityLevel: metrics.ALPHA,
		Help:           "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
	}, []string{"name"}))
	if err != nil {
		return nil, fmt.Errorf("registering leader_election_master_status: %w", err)
	}
	slowPath, err := registered(r, metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "leader_election_slowpath_total",
		StabilityLevel: metrics.ALPHA,
		Help:           "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.",
	}, []string{"name"}))
	if err != nil {
		return nil, fmt.Errorf("registering leader_election_slowpath_total: %w", err)
	}
	return &prometheusMetrics{leading: leading, slowPath: slowPath}, nil
}

// registered registers a metric, or finds the one that was registered before.
func registered[M metrics.Registerable](r Registry, m M) (M, error) {
	err := r.Register(m)
	var twice prometheus.AlreadyRegisteredError
	if errors.As(err, &twice) {
		if existing, ok := twice.ExistingCollector.(M); ok {
			return existing, nil
		}
	}
	return m, err
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
