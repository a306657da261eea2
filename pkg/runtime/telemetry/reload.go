// Package telemetry holds the metrics of the process itself, and the registries that
// the metrics of controllers come and go with.
//
//  1. Metrics of the process live in component-base's global registry.
//  2. Metrics of a controller instance live in a Registry of their own, which is
//     attached to the Hub while the instance runs. When it is detached, all of its
//     series are gone.
//  3. What is exposed can be changed at any time: the options of component-base apply to
//     what is read, not to what is counted.
//  4. Names follow those of kube-apiserver's reloaded configuration files.
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
}

// NewReload makes the metrics and registers them.
func NewReload(r interface {
	MustRegister(...metrics.Registerable)
}) *Reload {
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
		Help: "1 while the configuration file as it is now is not in force, 0 otherwise.",
	})
	r.MustRegister(m.info, m.took, m.now)
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
func (m *Reload) Rejected(is bool) {
	m.now.Set(map[bool]float64{true: 1}[is])
}

// InForce records the hash of the configuration in force.
func (m *Reload) InForce(hash string) {
	m.info.Reset()
	m.info.WithLabelValues("sha256:" + hash).Set(1)
}
