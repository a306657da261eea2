package serving

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/runtime/telemetry"
)

// Metrics count the clients of the endpoint.
type Metrics struct {
	connections *metrics.Gauge
	turnedAway  *metrics.CounterVec
}

// Reasons for rejecting a client, as in the label.
const (
	tooManyConnections = "connections"
	tooManyRequests    = "requests"
)

// NewMetrics makes the metrics and registers them.
func NewMetrics(r telemetry.Registerer) *Metrics {
	m := &Metrics{
		connections: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace: "kcmd", Subsystem: "serving", Name: "connections", StabilityLevel: metrics.ALPHA,
			Help: "Number of open connections to the endpoint.",
		}),
		turnedAway: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "kcmd", Subsystem: "serving", Name: "turned_away_total", StabilityLevel: metrics.ALPHA,
			Help: "Total number of connections closed and of requests rejected with 429 because unauthorized clients had too many of them, by reason.",
		}, []string{"reason"}),
	}
	r.MustRegister(m.connections, m.turnedAway)
	for _, reason := range []string{tooManyConnections, tooManyRequests} {
		m.turnedAway.WithLabelValues(reason).Add(0)
	}
	return m
}
