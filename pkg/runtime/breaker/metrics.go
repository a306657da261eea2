package breaker

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/runtime/telemetry"
)

// Metrics show what is stopped.
type Metrics struct {
	since, exceeded *metrics.GaugeVec
}

// NewMetrics returns registered metrics, which have no series before something is stopped.
func NewMetrics(r telemetry.Registerer) *Metrics {
	gauge := func(name, help string) *metrics.GaugeVec {
		return metrics.NewGaugeVec(&metrics.GaugeOpts{Namespace: "kcmd", Name: name, Help: help, StabilityLevel: metrics.ALPHA}, []string{"group", "resource"})
	}
	m := &Metrics{
		since: gauge("deletions_stopped_since_timestamp_seconds",
			"Time since which this process deletes no objects of a resource, because controllers were about to delete more than deletionBreaker allows."),
		exceeded: gauge("deletions_exceeded_timestamp_seconds",
			"Last time at which controllers were about to delete more objects of a resource than deletionBreaker allows, whether or not that stopped them."),
	}
	r.MustRegister(m.since, m.exceeded)
	return m
}

func (m *Metrics) stopped(of schema.GroupResource, now time.Time) {
	m.since.WithLabelValues(of.Group, of.Resource).Set(seconds(now))
}

func (m *Metrics) resumed(of schema.GroupResource) { m.since.DeleteLabelValues(of.Group, of.Resource) }

func (m *Metrics) reported(of schema.GroupResource, now time.Time) {
	m.exceeded.WithLabelValues(of.Group, of.Resource).Set(seconds(now))
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
