// Package operations has the metric of what controllers do with volumes. They share its name, and
// tell apart what they do by its labels.
package operations

import (
	"strconv"
	"time"

	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

// Operation is something that is done with a volume.
type Operation struct {
	// Plugin names the plugin of the volume, for CSI with the driver.
	Plugin string
	// Name is the name of the operation, such as "expand_volume".
	Name string
	// Migrated reports whether the plugin stands in for one that was part of Kubernetes.
	Migrated bool
}

// Buckets are the buckets of histograms about operations, in seconds.
func Buckets() []float64 {
	return []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}
}

// Metrics measures how long operations take. It is the metric of one instance.
type Metrics struct{ duration *metrics.HistogramVec }

// New returns the metric, registered.
func New(r controller.MetricsRegistry) Metrics {
	m := Metrics{metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "storage_operation_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Storage operation duration",
		Buckets: Buckets(),
	}, []string{"volume_plugin", "operation_name", "status", "migrated"})}
	r.MustRegister(m.duration)
	return m
}

// Observe counts an operation that took some time and ended with err, which may be nil.
func (m Metrics) Observe(o Operation, took time.Duration, err error) {
	status := "success"
	if err != nil {
		status = "fail-unknown"
	}
	plugin, migrated := controller.LabelValue(o.Plugin), strconv.FormatBool(o.Migrated)
	m.duration.WithLabelValues(plugin, o.Name, status, migrated).Observe(took.Seconds())
}
