package podgc

import (
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

type controllerMetrics struct {
	deleted, failed *metrics.CounterVec
}

func newMetrics(r controller.MetricsRegistry) controllerMetrics {
	m := controllerMetrics{
		deleted: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: "pod_gc_collector", Name: "force_delete_pods_total", StabilityLevel: metrics.ALPHA,
			Help: "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
		}, []string{"namespace", "reason"}),
		failed: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: "pod_gc_collector", Name: "force_delete_pod_errors_total", StabilityLevel: metrics.ALPHA,
			Help: "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
		}, []string{"namespace", "reason"}),
	}
	r.MustRegister(m.deleted, m.failed)
	return m
}
