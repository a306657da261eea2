package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
)

// createJob creates an Indexed Job and returns it and its pods once there are as many as
// it wants at a time.
func createJob(t *testing.T, completions, parallelism int32) (*batchv1.Job, []corev1.Pod) {
	t.Helper()
	namespace := cluster.Namespace(t)
	job, err := admin.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "pi"},
		Spec: batchv1.JobSpec{
			Completions: &completions, Parallelism: &parallelism, CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "c", Image: "x"}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	await.That(t, fmt.Sprintf("there are %d pods", parallelism), func(ctx context.Context) error {
		list, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if pods = list.Items; len(pods) != int(parallelism) {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	return job, pods
}

// Pins JOB-77 and JOB-80.
func TestPodsOfAParallelJobFormAGang(t *testing.T) {
	t.Parallel()
	job, pods := createJob(t, 3, 3)
	workloads, err := admin.SchedulingV1alpha2().Workloads(job.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(workloads.Items) != 1 {
		t.Fatalf("there are %v, %v", workloads, err)
	}
	workload := workloads.Items[0]
	templates := workload.Spec.PodGroupTemplates
	if !metav1.IsControlledBy(&workload, job) || len(templates) != 1 || templates[0].Name != "pi-pgt-0" || templates[0].SchedulingPolicy.Gang.MinCount != 3 {
		t.Errorf("the Workload is %+v", workload)
	}
	groups, err := admin.SchedulingV1alpha2().PodGroups(job.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(groups.Items) != 1 {
		t.Fatalf("there are %v, %v", groups, err)
	}
	group := groups.Items[0]
	if !metav1.IsControlledBy(&group, job) || !strings.HasPrefix(group.Name, workload.Name+"-pi-pgt-0-") {
		t.Errorf("the PodGroup is %+v", group)
	}
	for _, pod := range pods {
		if g := pod.Spec.SchedulingGroup; g == nil || *g.PodGroupName != group.Name {
			t.Errorf("pod %s is in group %+v", pod.Name, g)
		}
		if len(pod.OwnerReferences) != 1 {
			t.Errorf("pod %s belongs to %v", pod.Name, pod.OwnerReferences)
		}
	}
	await.That(t, "there is one event of the Workload", func(ctx context.Context) error {
		events, err := admin.CoreV1().Events(job.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=WorkloadCreated"})
		if err == nil && (len(events.Items) != 1 || events.Items[0].Message != fmt.Sprintf("Created Workload %s for Job pi", workload.Name)) {
			err = fmt.Errorf("the events are %v", events.Items)
		}
		return err
	})
}

// Pins JOB-77.
func TestPodsOfOtherJobsAreOnTheirOwn(t *testing.T) {
	t.Parallel()
	job, pods := createJob(t, 3, 2)
	for _, pod := range pods {
		if pod.Spec.SchedulingGroup != nil {
			t.Errorf("pod %s is in group %v", pod.Name, pod.Spec.SchedulingGroup)
		}
	}
	workloads, err := admin.SchedulingV1alpha2().Workloads(job.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(workloads.Items) != 0 {
		t.Errorf("there are %v, %v", workloads, err)
	}
}
