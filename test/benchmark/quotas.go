package benchmark

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

const (
	// quotas is the number of ResourceQuotas, each in a namespace of its own.
	quotas       = 500
	podsPerQuota = 20
)

// limited are the resources that each quota limits. The benchmark creates pods only; the API server
// counts them too when it admits them.
var limited = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
	corev1.ResourceRequestsEphemeralStorage, corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage,
	corev1.ResourceReplicationControllers, corev1.ResourceQuotas, "count/deployments.apps", "count/replicasets.apps", "count/statefulsets.apps",
	"count/jobs.batch", "count/cronjobs.batch",
}

// runQuotas fills namespaces with pods, and then replaces every pod.
func runQuotas(ctx context.Context, s *stage) error {
	n := scaled(quotas, s.options.Scale)
	if err := each(ctx, n, s.createQuota); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "usage is known", s.used(n, 0)); err != nil {
		return err
	}
	pods := n * podsPerQuota
	err := s.measure(ctx, phase{
		name: "quotas-fill", size: fmt.Sprintf("%d pods in %d namespaces with a quota of %d resources each", pods, n, len(limited)), units: float64(pods), unit: "pod",
		work: func(ctx context.Context, _ map[string]float64) error {
			if err := each(ctx, n, s.fillQuota); err != nil {
				return err
			}
			return s.until(ctx, "all pods are counted", s.used(n, podsPerQuota))
		},
		check: s.describeQuotas,
	})
	if err != nil {
		return err
	}
	return s.measure(ctx, phase{
		name: "quotas-churn", size: fmt.Sprintf("every one of %d pods deleted and another one created", pods), units: float64(pods), unit: "pod",
		work: func(ctx context.Context, _ map[string]float64) error {
			if err := each(ctx, n, s.replacePods); err != nil {
				return err
			}
			return s.until(ctx, "the deleted pods are no longer counted", s.used(n, podsPerQuota))
		},
		check: s.describeQuotas,
	})
}

// createQuota creates a namespace with a quota that limits much and forbids nothing.
func (s *stage) createQuota(ctx context.Context, i int) error {
	name := numbered("tenant", i)
	if err := s.namespace(ctx, name); err != nil {
		return err
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for _, resourceName := range limited {
		quota.Spec.Hard[resourceName] = resource.MustParse("1Ti")
	}
	_, err := s.client.CoreV1().ResourceQuotas(name).Create(ctx, quota, metav1.CreateOptions{})
	return err
}

// createTenant creates the j-th pod of a namespace, as it is before it is scheduled. The API server, which
// counts it in the quota too, refuses that if the manager writes the quota again and again meanwhile.
func (s *stage) createTenant(ctx context.Context, namespace string, j int) error {
	template := podTemplate(map[string]string{"app": "tenant"}, corev1.RestartPolicyAlways)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = numbered("pod", j)
	for c := range pod.Spec.Containers {
		resources := &pod.Spec.Containers[c].Resources
		resources.Limits[corev1.ResourceCPU] = resource.MustParse("20m")
		resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Mi")
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		_, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func (s *stage) fillQuota(ctx context.Context, i int) error {
	for j := range podsPerQuota {
		if err := s.createTenant(ctx, numbered("tenant", i), j); err != nil {
			return err
		}
	}
	return nil
}

// replacePods deletes and creates the pods of a namespace, one after the other.
func (s *stage) replacePods(ctx context.Context, i int) error {
	namespace := numbered("tenant", i)
	for j := range podsPerQuota {
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		if err := s.client.CoreV1().Pods(namespace).Delete(ctx, numbered("pod", j), now); err != nil {
			return err
		}
		if err := s.createTenant(ctx, namespace, j); err != nil {
			return err
		}
	}
	return nil
}

// used returns nil when each of n quotas has usage for all that it limits, and that of some pods.
func (s *stage) used(n, pods int) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := s.client.CoreV1().ResourceQuotas(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("there are %d of %d quotas", len(list.Items), n)
		}
		for _, quota := range list.Items {
			if used := quota.Status.Used; len(used) != len(limited) || used.Pods().Value() != int64(pods) {
				return fmt.Errorf("the quota of namespace %s has %d of %d resources and %s pods", quota.Namespace, len(used), len(limited), used.Pods())
			}
		}
		return nil
	}
}

// describeQuotas describes the usage that all quotas show.
func (s *stage) describeQuotas(ctx context.Context) (string, error) {
	list, err := s.client.CoreV1().ResourceQuotas(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	t := tally{}
	for _, quota := range list.Items {
		for _, name := range limited {
			used := quota.Status.Used[name]
			t.add("quotas with %s of %s", used.String(), name)
		}
	}
	return t.String(), nil
}
