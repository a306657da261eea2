package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/controllertest"
)

// TestRun watches the controller at work from a new Job to its end.
func TestRun(t *testing.T) {
	env := controllertest.New(t, newJob(sized(2, 2)))
	env.CompleteWrites("pods")
	instance, err := Descriptor().New(env.Env, defaults)
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Run(t, instance)
	await(t, env, "two pods run", func(job *batchv1.Job) bool { return job.Status.Active == 2 })
	pods, err := env.Fake.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		pod.Status.Phase, pod.ResourceVersion = corev1.PodSucceeded, "3000"
		if _, err := env.Fake.CoreV1().Pods("ns").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, env, "the Job is complete", func(job *batchv1.Job) bool { return isFinished(job) && job.Status.Succeeded == 2 })
}

// await waits until the Job is as it should be, while the clock of the controller moves on.
func await(t *testing.T, env *controllertest.Env, what string, check func(*batchv1.Job) bool) {
	t.Helper()
	var last batchv1.JobStatus
	defer func() {
		if t.Failed() {
			t.Logf("the status is %+v", last)
		}
	}()
	env.EventuallyAsTimePasses(t, what, 200*time.Millisecond, func() bool {
		job, err := env.Fake.BatchV1().Jobs("ns").Get(t.Context(), "pi", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last = job.Status
		return check(job)
	})
}
