package job

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"kcmd.dev/pkg/controllers/kit/controllertest"
)

// TestRun watches the controller at work from a new Job to its end.
func TestRun(t *testing.T) {
	env := controllertest.New(t, newJob(sized(2, 2)))
	nameCreatedPods(env)
	instance, err := Descriptor().New(env.Env, defaults)
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(env.Context())
	go func() { done <- instance.Run(ctx) }()
	waitFor(t, env, "two pods run", func(job *batchv1.Job) bool { return job.Status.Active == 2 })
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
	waitFor(t, env, "the Job is complete", func(job *batchv1.Job) bool { return isFinished(job) && job.Status.Succeeded == 2 })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// waitFor waits until the Job is as it should be, while the clock of the controller moves on.
func waitFor(t *testing.T, env *controllertest.Env, what string, check func(*batchv1.Job) bool) {
	t.Helper()
	var job *batchv1.Job
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (done bool, err error) {
		env.Clock.Step(200 * time.Millisecond)
		if job, err = env.Fake.BatchV1().Jobs("ns").Get(ctx, "pi", metav1.GetOptions{}); err != nil {
			return false, err
		}
		return check(job), nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v: the status is %+v", what, err, job.Status)
	}
}
