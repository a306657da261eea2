package telemetry

import (
	"time"

	"k8s.io/component-base/metrics"
)

// Outcomes counts the outcomes of changed files, under the names that kube-apiserver uses for
// the files it reloads.
type Outcomes struct {
	total *metrics.CounterVec
	last  *metrics.GaugeVec
}

// Reload outcomes, as in the status label.
const (
	Success = "success"
	Failure = "failure"
)

// NewOutcomes makes the metrics of one subsystem and registers them. plural and singular name
// the changes in the help texts.
func NewOutcomes(r Registerer, subsystem, plural, singular string) Outcomes {
	o := Outcomes{
		total: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "kcmd", Subsystem: subsystem, Name: "automatic_reloads_total", StabilityLevel: metrics.ALPHA,
			Help: "Total number of " + plural + " by status.",
		}, []string{"status"}),
		last: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: "kcmd", Subsystem: subsystem, Name: "automatic_reload_last_timestamp_seconds", StabilityLevel: metrics.ALPHA,
			Help: "Timestamp of the last " + singular + " by status.",
		}, []string{"status"}),
	}
	r.MustRegister(o.total, o.last)
	for _, status := range []string{Success, Failure} {
		o.total.WithLabelValues(status).Add(0)
	}
	return o
}

// Record counts one change.
func (o Outcomes) Record(status string, at time.Time) {
	o.total.WithLabelValues(status).Inc()
	o.last.WithLabelValues(status).Set(float64(at.UnixNano()) / 1e9)
}
