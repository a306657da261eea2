package serving

import "k8s.io/component-base/metrics"

// Metrics count who is at the endpoint.
type Metrics struct {
	connections *metrics.Gauge
	turnedAway  *metrics.CounterVec
}

// Reasons for turning somebody away, as in the label.
const (
	tooManyConnections = "connections"
	tooManyRequests    = "requests"
)

// NewMetrics makes the metrics and registers them.
func NewMetrics(r interface {
	MustRegister(...metrics.Registerable)
}) *Metrics {
	m := &Metrics{
		connections: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace: "kcmd", Subsystem: "serving", Name: "connections", StabilityLevel: metrics.ALPHA,
			Help: "Number of open connections to the endpoint.",
		}),
		turnedAway: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "kcmd", Subsystem: "serving", Name: "turned_away_total", StabilityLevel: metrics.ALPHA,
			Help: "Total number of connections that were closed, and of requests that were answered with 429, because clients that are not authorized had too many, by what there were too many of.",
		}, []string{"reason"}),
	}
	r.MustRegister(m.connections, m.turnedAway)
	for _, reason := range []string{tooManyConnections, tooManyRequests} {
		m.turnedAway.WithLabelValues(reason).Add(0)
	}
	return m
}
