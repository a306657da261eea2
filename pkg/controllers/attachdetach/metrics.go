package attachdetach

import (
	"slices"

	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/volumes/operations"
)

// The states that volumes are counted in.
const (
	stateDesired = "desired_state_of_world"
	stateActual  = "actual_state_of_world"
)

// tally is a gauge that is kept up to date by changes. A number that is 0 has no series.
type tally struct {
	gauge  *metrics.GaugeVec
	labels [2]string
	of     map[[2]string]int
}

// newTally makes a tally that is exposed later, with what was counted until then.
func newTally(name, help string, labels [2]string) *tally {
	return &tally{
		gauge:  metrics.NewGaugeVec(&metrics.GaugeOpts{Name: name, StabilityLevel: metrics.ALPHA, Help: help}, labels[:]),
		labels: labels,
		of:     map[[2]string]int{},
	}
}

func (t *tally) expose(r controller.MetricsRegistry) {
	r.MustRegister(t.gauge)
	for values, number := range t.of {
		t.gauge.WithLabelValues(values[:]...).Set(float64(number))
	}
}

func (t *tally) change(values [2]string, by int) {
	t.of[values] += by
	if t.of[values] != 0 {
		t.gauge.WithLabelValues(values[:]...).Set(float64(t.of[values]))
		return
	}
	delete(t.of, values)
	t.gauge.Delete(map[string]string{t.labels[0]: values[0], t.labels[1]: values[1]})
}

// counts are the numbers of volumes. The lock of the controller protects them.
type counts struct{ total, inUse *tally }

func newCounts() counts {
	return counts{
		total: newTally("attachdetach_controller_total_volumes", "Number of volumes in A/D Controller",
			[2]string{"plugin_name", "state"}),
		inUse: newTally("storage_count_attachable_volumes_in_use", "Measure number of volumes in use",
			[2]string{"node", "volume_plugin"}),
	}
}

// volumes changes the number of volumes of a plugin in a state. What has no label is not counted.
func (c counts) volumes(label, state string, by int) {
	if label != "" {
		c.total.change([2]string{label, state}, by)
	}
}

// pod replaces the volumes of a pod on a node.
func (c counts) pod(node string, before, after []string) {
	if slices.Equal(before, after) {
		return
	}
	for _, label := range before {
		c.inUse.change([2]string{node, label}, -1)
	}
	for _, label := range after {
		c.inUse.change([2]string{node, label}, 1)
	}
}

type controllerMetrics struct {
	forced     *metrics.CounterVec
	operations operations.Metrics
}

func newMetrics(r controller.MetricsRegistry) controllerMetrics {
	return controllerMetrics{
		forced: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem:      "attach_detach_controller",
			Name:           "attachdetach_controller_forced_detaches",
			Help:           "Number of times the A/D Controller performed a forced detach",
			StabilityLevel: metrics.ALPHA,
		}, []string{"reason"}),
		operations: operations.New(r),
	}
}

// expose exposes what counts the state of the world, once there is one.
func (c *attachDetachController) expose() {
	c.Metrics.MustRegister(c.metrics.forced)
	c.world.counts.total.expose(c.Metrics)
	c.world.counts.inUse.expose(c.Metrics)
}
