package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/writes"
)

const subsystem = "statefulset_controller"

type controllerMetrics struct {
	staleSyncs writes.StaleSyncs
	// maxUnavailable and unavailableReplicas are set only with the gate MaxUnavailableStatefulSet.
	maxUnavailable      *metrics.GaugeVec
	unavailableReplicas *metrics.GaugeVec
}

func newMetrics(registry controller.MetricsRegistry) *controllerMetrics {
	perSet := func(name, help string) *metrics.GaugeVec {
		return metrics.NewGaugeVec(&metrics.GaugeOpts{
			Subsystem:      subsystem,
			Name:           name,
			Help:           help,
			StabilityLevel: metrics.ALPHA,
		}, []string{"statefulset_namespace", "statefulset_name", "pod_management_policy"})
	}
	m := &controllerMetrics{
		staleSyncs:          writes.NewStaleSyncs(registry, subsystem),
		maxUnavailable:      perSet("statefulset_max_unavailable", "Number of pods of a StatefulSet that may be unavailable during a rolling update."),
		unavailableReplicas: perSet("statefulset_unavailable_replicas", "Number of pods of a StatefulSet that are unavailable during a rolling update."),
	}
	registry.MustRegister(m.maxUnavailable, m.unavailableReplicas)
	return m
}

func (m *controllerMetrics) rolling(set *appsv1.StatefulSet, maxUnavailable, unavailable int) {
	labels := []string{set.Namespace, set.Name, string(set.Spec.PodManagementPolicy)}
	m.maxUnavailable.WithLabelValues(labels...).Set(float64(maxUnavailable))
	m.unavailableReplicas.WithLabelValues(labels...).Set(float64(unavailable))
}

// forget drops the series of a deleted set.
func (m *controllerMetrics) forget(set types.NamespacedName) {
	policies := []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement}
	for _, policy := range policies {
		labels := map[string]string{
			"statefulset_namespace": set.Namespace,
			"statefulset_name":      set.Name,
			"pod_management_policy": string(policy),
		}
		m.maxUnavailable.Delete(labels)
		m.unavailableReplicas.Delete(labels)
	}
}
