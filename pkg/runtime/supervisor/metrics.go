package supervisor

import (
	"time"

	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/runtime/telemetry"
)

// Metrics describe the controllers of a process. Their series are bounded by the
// number of controllers and live as long as the process.
type Metrics struct {
	state      *metrics.GaugeVec
	generation *metrics.GaugeVec
	restarts   *metrics.CounterVec
	start      *metrics.HistogramVec
	drain      *metrics.HistogramVec
	abandoned  *metrics.CounterVec
	lost       *metrics.CounterVec
	managed    *metrics.GaugeVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r telemetry.Registerer) *Metrics {
	m := &Metrics{
		state: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: "kcmd", Subsystem: "controller", Name: "state", StabilityLevel: metrics.ALPHA,
			Help: "1 for the state a controller is in, 0 for the others.",
		}, []string{"name", "state"}),
		generation: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: "kcmd", Subsystem: "controller", Name: "instance_generation", StabilityLevel: metrics.ALPHA,
			Help: "Number of instances of a controller that were started in this process.",
		}, []string{"name"}),
		restarts: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "kcmd", Subsystem: "controller", Name: "restarts_total", StabilityLevel: metrics.ALPHA,
			Help: "Number of times an instance of a controller was replaced, by reason.",
		}, []string{"name", "reason"}),
		start: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace: "kcmd", Subsystem: "controller", Name: "start_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "Time from the decision to start an instance until it runs, including the drain of its predecessor.",
			Buckets: metrics.ExponentialBuckets(0.001, 4, 8),
		}, []string{"name"}),
		drain: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace: "kcmd", Subsystem: "controller", Name: "drain_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "Time an instance took to finish the work in flight after its stop was requested.",
			Buckets: metrics.ExponentialBuckets(0.001, 4, 8),
		}, []string{"name"}),
		abandoned: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "kcmd", Subsystem: "controller", Name: "abandoned_instances_total", StabilityLevel: metrics.ALPHA,
			Help: "Number of instances that did not stop within the drain timeout and were abandoned, fenced.",
		}, []string{"name"}),
		lost: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "kcmd", Subsystem: "controller", Name: "hand_over_failures_total", StabilityLevel: metrics.ALPHA,
			Help: "Number of instances that panicked or did not respond when they had to hand over to their successor.",
		}, []string{"name"}),
		managed: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "running_managed_controllers", StabilityLevel: metrics.BETA,
			Help: "Indicates where instances of a controller are currently running",
		}, []string{"name", "manager"}),
	}
	r.MustRegister(m.state, m.generation, m.restarts, m.start, m.drain, m.abandoned, m.lost, m.managed)
	return m
}

func (m *Metrics) setState(name string, s State) {
	for _, other := range States {
		value := 0.0
		if other == s {
			value = 1
		}
		m.state.WithLabelValues(name, string(other)).Set(value)
	}
	up := 0.0
	if s == Running {
		up = 1
	}
	m.managed.WithLabelValues(name, "kube-controller-manager").Set(up)
}

func (m *Metrics) started(name string, generation uint64, took time.Duration) {
	m.generation.WithLabelValues(name).Set(float64(generation))
	m.start.WithLabelValues(name).Observe(took.Seconds())
}
