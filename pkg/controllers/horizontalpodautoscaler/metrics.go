package horizontalpodautoscaler

import (
	"errors"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

// action is the action on the target, taken or computed.
type action string

const (
	actionScaleUp   action = "scale_up"
	actionScaleDown action = "scale_down"
	actionNone      action = "none"
)

func actionOf(desired, current int32) action {
	switch {
	case desired > current:
		return actionScaleUp
	case desired < current:
		return actionScaleDown
	}
	return actionNone
}

func errorLabel(err error) string {
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, errSpec):
		return "spec"
	}
	return "internal"
}

const subsystem = "horizontal_pod_autoscaler_controller"

// What the labels mean, in the help texts of the metrics.
const (
	helpAction     = " The label 'action' should be either 'scale_down', 'scale_up', or 'none'."
	helpError      = " The label 'error' should be either 'spec', 'internal', or 'none'."
	helpAlsoError  = " Also, the label 'error' should be either 'spec', 'internal', or 'none'."
	helpFirstError = " Note that if both spec and internal errors happen during a reconciliation, " +
		"the first one to occur is reported in `error` label."
	helpMetricType = " The label 'metric_type' corresponds to HPA.spec.metrics[*].type"
)

type controllerMetrics struct {
	reconciliations, computations               *metrics.CounterVec
	reconciliationDuration, computationDuration *metrics.HistogramVec
	autoscalers                                 *metrics.Gauge
	desiredReplicas                             *metrics.GaugeVec
}

func newMetrics(r controller.MetricsRegistry) controllerMetrics {
	m := controllerMetrics{
		reconciliations: counter("reconciliations_total",
			"Number of reconciliations of HPA controller."+helpAction+helpAlsoError+helpFirstError,
			"action", "error"),
		reconciliationDuration: histogram("reconciliation_duration_seconds",
			"The time(seconds) that the HPA controller takes to reconcile once."+helpAction+helpAlsoError+helpFirstError,
			"action", "error"),
		computations: counter("metric_computation_total",
			"Number of metric computations."+helpAction+helpAlsoError+helpMetricType,
			"action", "error", "metric_type"),
		computationDuration: histogram("metric_computation_duration_seconds",
			"The time(seconds) that the HPA controller takes to calculate one metric."+helpAction+helpError+helpMetricType,
			"action", "error", "metric_type"),
		autoscalers: metrics.NewGauge(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "num_horizontal_pod_autoscalers", StabilityLevel: metrics.ALPHA,
			Help: "Current number of controlled HPA objects.",
		}),
		desiredReplicas: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "desired_replicas", StabilityLevel: metrics.ALPHA,
			Help: "Current desired replica count for HPA objects.",
		}, []string{"namespace", "hpa_name"}),
	}
	r.MustRegister(m.reconciliations, m.reconciliationDuration, m.computations, m.computationDuration,
		m.autoscalers, m.desiredReplicas)
	return m
}

func counter(name, help string, labels ...string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: name, StabilityLevel: metrics.BETA, Help: help,
	}, labels)
}

func histogram(name, help string, labels ...string) *metrics.HistogramVec {
	return metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: name, StabilityLevel: metrics.BETA, Help: help,
		Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
	}, labels)
}

// reconciled counts an evaluation.
func (m controllerMetrics) reconciled(done action, err error, took time.Duration) {
	m.reconciliations.WithLabelValues(string(done), errorLabel(err)).Inc()
	m.reconciliationDuration.WithLabelValues(string(done), errorLabel(err)).Observe(took.Seconds())
}

// computed counts the computation of one metric.
func (m controllerMetrics) computed(
	proposed action, err error, kind autoscalingv2.MetricSourceType, took time.Duration,
) {
	if err != nil {
		proposed = actionNone
	}
	m.computations.WithLabelValues(string(proposed), errorLabel(err), string(kind)).Inc()
	m.computationDuration.WithLabelValues(string(proposed), errorLabel(err), string(kind)).Observe(took.Seconds())
}

func (m controllerMetrics) desired(key cache.ObjectName, replicas int32) {
	m.desiredReplicas.WithLabelValues(key.Namespace, key.Name).Set(float64(replicas))
}

// forget drops the series of a deleted autoscaler.
func (m controllerMetrics) forget(key cache.ObjectName) {
	m.desiredReplicas.Delete(map[string]string{"namespace": key.Namespace, "hpa_name": key.Name})
}
