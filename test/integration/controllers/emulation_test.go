package controllers

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

// TestGatesOfAnEmulatedVersion has the manager behave like a version in which gates could be
// switched that are locked today.
func TestGatesOfAnEmulatedVersion(t *testing.T) {
	t.Cleanup(func() {
		if err := kcm.Edit(context.Background(), func(c *manager.Config) { c.EmulatedVersion, c.FeatureGates = "1.36", nil }); err != nil {
			t.Error(err)
		}
	})
	err := kcm.Edit(t.Context(), func(c *manager.Config) {
		c.EmulatedVersion = "1.33"
		c.FeatureGates = map[string]bool{"JobPodReplacementPolicy": false, "JobManagedBy": false, "OrderedNamespaceDeletion": false}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("terminating pods are replaced at once", func(t *testing.T) {
		namespace := newNamespace(t)
		createJob(t, namespace, 1, 1, haunted, func(j *batchv1.Job) {
			j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}}
		})
		pod := jobPods(t, namespace, 1)[0]
		if err := admin.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if replacement := jobPods(t, namespace, 1)[0]; replacement.UID == pod.UID {
			t.Errorf("the pod %s is not terminating", pod.Name)
		}
		if job := waitForJob(t, namespace, "active 1"); job.Status.Terminating != nil {
			t.Errorf("the status tells of %d terminating pods", *job.Status.Terminating)
		}
	})
	t.Run("a job of another controller is run", func(t *testing.T) {
		namespace := newNamespace(t)
		createJob(t, namespace, 1, 1, func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") })
		waitForJob(t, namespace, "succeeded 1, "+jobSucceeded)
	})
	t.Run("the content of a namespace goes beside its pods", func(t *testing.T) {
		namespace := newNamespace(t)
		createConfigMap(t, namespace, "needed")
		createPod(t, namespace, "slow", "web", func(p *corev1.Pod) {
			p.Spec.NodeName = ghost
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
		})
		deleteNamespace(t, namespace)
		eventually(t, "the content is gone", func(ctx context.Context) error {
			_, err := admin.CoreV1().ConfigMaps(namespace).Get(ctx, "needed", metav1.GetOptions{})
			return gone(err)
		})
		must(admin.CoreV1().Pods(namespace).Get(t.Context(), "slow", metav1.GetOptions{}))(t)
		deleteNow(t, namespace, "slow")
		waitForNamespaceGone(t, namespace)
	})
	t.Run("traffic is not kept on the node", func(t *testing.T) {
		namespace := newNamespace(t)
		createService(t, namespace, func(s *corev1.Service) {
			s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
		})
		createPods(t, namespace, "web", nodes)
		waitForSlices(t, namespace, "IPv4 http/TCP/8080: web-0, web-1, web-2")
		waitForHints(t, namespace, "web-0=", "web-1=", "web-2=")
	})
}
