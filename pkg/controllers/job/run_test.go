package job

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
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

// A Job with a deadline usually ends long before it. Pins JOB-141.
func TestNothingWaitsLongForAJobThatIsGone(t *testing.T) {
	const deadline = 30 * 24 * 60 * 60
	var jobs []runtime.Object
	for i := range 20 {
		jobs = append(jobs, newJob(func(job *batchv1.Job) {
			job.Name, job.UID = fmt.Sprintf("pi-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
			job.Spec.ActiveDeadlineSeconds = ptr.To[int64](deadline)
			job.Status.StartTime = ptr.To(metav1.NewTime(start))
		}))
	}
	env := controllertest.New(t, jobs...)
	env.CompleteWrites("pods")
	c := must.Get(newController(env.Env, defaults))(t)
	env.Start(t)
	env.Run(t, c)
	waiting := func() []controller.LoopKey { return c.owners.Loop.Keys(func(string) bool { return true }) }
	env.EventuallyAsTimePasses(t, "their deadlines are waited for", time.Second, func() bool {
		return env.Idle() && len(waiting()) == len(jobs) && len(controllertest.AllStored[*corev1.Pod](t, env, "ns")) == len(jobs)
	})
	env.Remove(t, jobs...)
	env.EventuallyAsTimePasses(t, "nothing waits for them", 10*time.Minute, func() bool {
		if longest := env.LongestDelay(waiting()); longest > time.Hour {
			t.Fatalf("one of %d keys waits for %v", len(waiting()), longest)
		}
		return env.Idle() && len(waiting()) == 0
	})
}

// Its key returns in between. Pins JOB-40e and JOB-141.
func TestAJobIsActiveUntilADeadlineThatIsFarAhead(t *testing.T) {
	const deadline = 5 * time.Hour
	env := controllertest.New(t, newJob(started, func(job *batchv1.Job) {
		job.Spec.ActiveDeadlineSeconds = ptr.To(int64(deadline.Seconds()))
		job.Status.StartTime = ptr.To(metav1.NewTime(start))
	}))
	env.CompleteWrites("pods")
	c := must.Get(newController(env.Env, defaults))(t)
	env.Start(t)
	env.Run(t, c)
	env.EventuallyAsTimePasses(t, "the Job fails", 10*time.Minute, func() bool {
		job := controllertest.MustStored[*batchv1.Job](t, env, "ns", "pi")
		fails := trueCondition(job, batchv1.JobFailureTarget) != nil
		if lived := env.Clock.Since(start); fails && lived < deadline {
			t.Fatalf("it has failed after %v", lived)
		}
		return fails
	})
}
