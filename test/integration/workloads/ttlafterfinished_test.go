package workloads

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
)

// Pins TTLF-9 and TTLF-13.
func TestAFinishedJobGoesWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	create := func(name string, ttl *int32) *batchv1.Job {
		t.Helper()
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{ManagedBy: ptr.To(theTest), TTLSecondsAfterFinished: ttl, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "x"}}},
		}}}
		created, err := admin.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	soon, later, never := create("soon", ptr.To(int32(2))), create("later", ptr.To(int32(3600))), create("never", nil)
	for _, job := range []*batchv1.Job{soon, later, never} {
		end(t, job, batchv1.JobComplete, time.Now())
	}
	deleting := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			job, err := admin.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && job.DeletionTimestamp != nil {
				if !slices.Contains(job.Finalizers, metav1.FinalizerDeleteDependents) {
					return fmt.Errorf("it is not deleted in the foreground: %v", job.Finalizers)
				}
				return nil
			}
			return await.Gone(err)
		}
	}
	await.That(t, "the job is deleted", deleting("soon"))
	if _, err := admin.BatchV1().Jobs(namespace).Patch(t.Context(), "later", types.MergePatchType, []byte(`{"spec":{"ttlSecondsAfterFinished":1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the job whose time was shortened is deleted", deleting("later"))
	if job, err := admin.BatchV1().Jobs(namespace).Get(t.Context(), "never", metav1.GetOptions{}); err != nil || job.DeletionTimestamp != nil {
		t.Errorf("the job without a time to live: %v %v", job, err)
	}
}
