package workloads

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestGatesOfAnEmulatedVersion has the manager behave like a version in which gates could be
// switched that are locked today.
func TestGatesOfAnEmulatedVersion(t *testing.T) {
	cluster.Emulate(t, "1.33", map[string]bool{"JobPodReplacementPolicy": false, "JobManagedBy": false})
	t.Run("terminating pods are replaced at once", func(t *testing.T) {
		namespace := cluster.NamespaceForPods(t)
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
		namespace := cluster.NamespaceForPods(t)
		createJob(t, namespace, 1, 1, func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") })
		waitForJob(t, namespace, "succeeded 1, "+jobSucceeded)
	})
}
