package telemetry

import (
	"time"

	"k8s.io/component-base/metrics"
)

// Reload counts reloads of the configuration file.
type Reload struct {
	outcomes Outcomes
	info     *metrics.GaugeVec
	took     *metrics.Histogram
	now      *metrics.Gauge
	lastGood *metrics.Gauge
	notKept  *metrics.Gauge
	deviated *metrics.Counter
}

// NewReload makes the metrics and registers them.
func NewReload(r Registerer) *Reload {
	m := &Reload{
		outcomes: NewOutcomes(r, "config", "automatic reloads of the configuration file", "automatic reload of the configuration file"),
		info: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: "kcmd", Subsystem: "config", Name: "last_config_info", StabilityLevel: metrics.ALPHA,
			Help: "Information about the configuration in force, labelled with its hash.",
		}, []string{"hash"}),
		took: metrics.NewHistogram(&metrics.HistogramOpts{
			Namespace: "kcmd", Subsystem: "config", Name: "reload_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "Time from reading a changed file until every new instance was built and handed to its controller.",
			Buckets: metrics.ExponentialBuckets(0.001, 2, 14),
		}),
	}
	m.now = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "kcmd", Subsystem: "config", Name: "rejected", StabilityLevel: metrics.ALPHA,
		Help: "1 while the current content of the configuration file is not in force, 0 otherwise.",
	})
	m.lastGood = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "kcmd", Subsystem: "config", Name: "last_good_in_force", StabilityLevel: metrics.ALPHA,
		Help: "1 while the last good configuration is in force because the process could not start with its file, 0 otherwise.",
	})
	m.notKept = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "kcmd", Subsystem: "config", Name: "not_kept", StabilityLevel: metrics.ALPHA,
		Help: "1 while the configuration in force could not be kept as the last good one, 0 otherwise.",
	})
	m.deviated = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: "kcmd", Subsystem: "config", Name: "plan_deviations_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of times a reload did something to a controller, a lease or the connection that its Plan does not say and nothing explains.",
	})
	r.MustRegister(m.info, m.took, m.now, m.lastGood, m.notKept, m.deviated)
	return m
}

// Record counts a reload.
func (m *Reload) Record(status string, at time.Time, took time.Duration) {
	m.outcomes.Record(status, at)
	if status == Success {
		m.took.Observe(took.Seconds())
	}
}

// Rejected records whether the file as it is now is rejected.
func (m *Reload) Rejected(is bool) { set(m.now, is) }

// LastGood records whether the last good configuration is in force instead of the file.
func (m *Reload) LastGood(is bool) { set(m.lastGood, is) }

// NotKept records whether the configuration in force could not be kept.
func (m *Reload) NotKept(is bool) { set(m.notKept, is) }

func set(g *metrics.Gauge, is bool) { g.Set(map[bool]float64{true: 1}[is]) }

// Deviated counts something that a reload did other than planned.
func (m *Reload) Deviated() { m.deviated.Inc() }

// InForce records the hash of the configuration in force.
func (m *Reload) InForce(hash string) {
	m.info.Reset()
	m.info.WithLabelValues("sha256:" + hash).Set(1)
}
