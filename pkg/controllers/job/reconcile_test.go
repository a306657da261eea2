package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// Pins JOB-31, JOB-54, JOB-55, JOB-82 and JOB-99.
func TestAJobOfOnePod(t *testing.T) {
	f := newFixture(t, defaults, newJob())
	f.MustReconcile(t)
	f.WantRequests(t, "create pods", "update jobs/status")
	f.WantEvents(t, "Normal SuccessfulCreate Created pod: pi-1")
	pod := f.storedPods(t)[0]
	if !isTracked(pod) || !metav1.IsControlledBy(pod, newJob()) || pod.GenerateName != "pi-" {
		t.Errorf("the pod is %+v", pod.ObjectMeta)
	}
	if s := f.stored(t).Status; s.Active != 1 || *s.Ready != 0 || *s.Terminating != 0 || s.StartTime == nil {
		t.Errorf("the status is %+v", s)
	}

	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequests(t)

	controllertest.Change(t, f.Env, "ns", "pi-1", succeeded)
	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequests(t, "update jobs/status", "patch pods pi-1", "update jobs/status")
	f.WantEvents(t, "Normal Completed Job completed")
	job := f.stored(t)
	if got, want := conditionsOf(job), "SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached"; got != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
	if s := job.Status; s.Active != 0 || s.Succeeded != 1 || s.CompletionTime == nil || len(s.UncountedTerminatedPods.Succeeded) != 0 {
		t.Errorf("the status is %+v", s)
	}
	if pod := f.storedPods(t)[0]; isTracked(pod) {
		t.Error("the pod keeps its finalizer")
	}

	// The caches do not show any of it, but the mark does.
	f.MustReconcile(t)
	f.WantRequests(t)
	f.CatchUp(t)
	f.MustReconcile(t)
	if f.c.memory.knows(key) {
		t.Error("a finished Job is remembered")
	}
}

// Pins JOB-41 and JOB-82.
func TestAJobThatFails(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(3, 3), started, func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) }),
		newPod("f", failed), newPod("r", ready), newPod("s", succeeded))
	f.MustReconcile(t)
	requests := f.Requests()
	slices.Sort(requests[2:5]) // they are made at once
	if got, want := strings.Join(requests, ", "), "delete pods r, update jobs/status pi, patch pods f, patch pods r, patch pods s, update jobs/status pi"; got != want {
		t.Errorf("requests %q, want %q", got, want)
	}
	job := f.stored(t)
	if s := job.Status; s.Failed != 2 || s.Succeeded != 1 || s.Active != 0 || *s.Ready != 0 || *s.Terminating != 1 {
		t.Errorf("the status is %+v", s)
	}
	if got := conditionsOf(job); got != "FailureTarget=True BackoffLimitExceeded" {
		t.Errorf("conditions %s while a pod terminates", got)
	}
	f.WantEvents(t, "Normal SuccessfulDelete Deleted pod: r")
	f.Remove(t, newPod("r")) // by the kubelet
	f.CatchUp(t)
	f.MustReconcile(t)
	if got := conditionsOf(f.stored(t)); got != "FailureTarget=True BackoffLimitExceeded, Failed=True BackoffLimitExceeded" {
		t.Errorf("conditions %s", got)
	}
	f.WantRequests(t, "update jobs/status")
	f.WantEvents(t, "Warning BackoffLimitExceeded Job has reached the specified backoff limit")
	if got := f.metric(t, "job_controller_jobs_finished_total"); got != "completion_mode=NonIndexed reason=BackoffLimitExceeded result=failed 1" {
		t.Errorf("counted %q", got)
	}
}

// Pins JOB-82.
func TestTooManySucceeded(t *testing.T) {
	f := newFixture(t, defaults, newJob(started), newPod("a", succeeded), newPod("b", succeeded))
	f.MustReconcile(t)
	f.WantEvents(t, "Warning TooManySucceededPods Too many succeeded pods running after completion count reached", "Normal Completed Job completed")
}

func TestSuccessIsReportedWithAllItsIndexes(t *testing.T) {
	var objects []runtime.Object
	for i := range 700 {
		objects = append(objects, newPod("p"+strconv.Itoa(i), succeeded, atIndex(i)))
	}
	f := newFixture(t, defaults, append(objects, newJob(indexed, sized(700, 700), started))...)
	var reported []string
	f.Fake.PrependReactor("update", "jobs", func(action ktesting.Action) (bool, runtime.Object, error) {
		job := action.(ktesting.UpdateAction).GetObject().(*batchv1.Job)
		reported = append(reported, fmt.Sprint(job.Status.Succeeded, " ", conditionsOf(job)))
		return false, nil, nil
	})
	f.MustReconcile(t)
	f.CatchUp(t)
	f.MustReconcile(t)
	want := []string{"700 SuccessCriteriaMet=True CompletionsReached", "700 SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached"}
	if !slices.Equal(reported, want) {
		t.Errorf("T4: reported %q, want %q", reported, want)
	}
}

// Pins JOB-128.
func TestAnIndexedJobNeedsNoPodToComplete(t *testing.T) {
	f := newFixture(t, defaults, newJob(indexed, sized(2, 2), started, func(j *batchv1.Job) {
		j.Status.CompletedIndexes, j.Status.Succeeded = "0,1", 2
	}))
	f.MustReconcile(t)
	f.WantRequests(t, "update jobs/status")
	if got := conditionsOf(f.stored(t)); got != "SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached" {
		t.Errorf("conditions %s", got)
	}
}

func TestJobsThatAreLeftAlone(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*batchv1.Job)
		events []string
	}{
		{"JOB-26: managed elsewhere", func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") }, nil},
		{"JOB-27: complete", withStatusCondition(batchv1.JobComplete, "True", "X"), nil},
		{"JOB-27: failed", withStatusCondition(batchv1.JobFailed, "True", "X"), nil},
		{"JOB-29: of a newer API", func(j *batchv1.Job) { j.Spec.CompletionMode = ptr.To[batchv1.CompletionMode]("New") },
			[]string{"Warning UnknownCompletionMode Skipped Job sync because completion mode is unknown"}},
	} {
		f := newFixture(t, defaults, newJob(test.change))
		f.MustReconcile(t)
		f.WantRequests(t)
		f.WantEvents(t, test.events...)
		if got := f.metric(t, "job_controller_job_syncs_total"); got != "" {
			t.Errorf("%s: counted %q", test.name, got)
		}
	}
	f := newFixture(t, defaults, newJob(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To(batchv1.JobControllerName) }))
	f.MustReconcile(t)
	f.WantRequests(t, "create pods", "update jobs/status")
}

// Pins JOB-48.
func TestADeletedJobLetsItsPodsGo(t *testing.T) {
	f := newFixture(t, defaults, newJob(started, func(j *batchv1.Job) {
		j.DeletionTimestamp, j.Finalizers, j.Status.Active = &metav1.Time{Time: start}, []string{"foregroundDeletion"}, 1
	}), newPod("r"))
	f.MustReconcile(t)
	f.WantRequests(t, "patch pods r")
}

// Pins JOB-33 and JOB-94.
func TestAdoptionAndRelease(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(2, 2), started), newPod("orphan", alone, untracked),
		newPod("stray", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), newPod("mine"))
	f.MustReconcile(t)
	for _, pod := range f.storedPods(t) {
		mine := pod.Name != "stray"
		if isTracked(pod) != mine || metav1.IsControlledBy(pod, newJob()) != mine {
			t.Errorf("pod %s has %v, %v", pod.Name, pod.Finalizers, pod.OwnerReferences)
		}
	}
	if f.stored(t).Status.Active != 2 {
		t.Errorf("the status is %+v", f.stored(t).Status)
	}
}

// Pins JOB-110.
func TestAConflictIsNoFailure(t *testing.T) {
	f := newFixture(t, defaults, newJob())
	f.Refuse("update jobs/status", apierrors.NewConflict(jobResource.WithVersion("").GroupResource(), "pi", errBoom))
	if err := f.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("the error is %v", err)
	}
}

// The API server may have been restored from a backup, and then shows the Job unfinished again.
// Pins JOB-28 and JOB-105.
func TestAFinishedJobIsLookedAtAgainAfterATime(t *testing.T) {
	f := newFixture(t, defaults, newJob(started, func(j *batchv1.Job) { j.Status.Active = 1 }), newPod("p"))
	f.c.memory.finished.set(key, "job-uid", f.Clock.Now())
	f.Clock.Step(time.Minute)
	f.MustReconcile(t)
	f.Queued.Want(t, "ns/pi in 4m0s")
	controllertest.Change(t, f.Env, "ns", "p", succeeded)
	f.CatchUp(t)
	f.Clock.Step(4 * time.Minute)
	f.MustReconcile(t)
	f.WantRequests(t, "update jobs/status", "patch pods p", "update jobs/status")
}

func TestACutOffReconcileReportsNothing(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(2, 2)))
	ctx, cancel := context.WithCancel(f.Context())
	f.Fake.PrependReactor("create", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		cancel()
		return true, nil, context.Canceled
	})
	if err := f.Work(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	f.WantRequests(t, "create pods")
	f.WantEvents(t)
}

// Reconciles are counted by action and result.
func TestReconcilesAreCounted(t *testing.T) {
	suspended := func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		refused string
		want    string
	}{
		{"JOB-30, JOB-83a: nothing to do with its pods", []runtime.Object{newJob(started, func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: start} })}, "",
			"action=reconciling completion_mode=NonIndexed result=success 1"},
		{"JOB-30, JOB-83a: the pods are as they should be", []runtime.Object{newJob(started), newPod("a")}, "",
			"action=tracking completion_mode=NonIndexed result=success 1"},
		{"JOB-30, JOB-83a: a pod is created", []runtime.Object{newJob()}, "", "action=pods_created completion_mode=NonIndexed result=success 1"},
		{"JOB-30, JOB-83a: a pod cannot be created", []runtime.Object{newJob()}, "create pods", "action=pods_created completion_mode=NonIndexed result=error 1"},
		{"JOB-30, JOB-83a: a pod is deleted", []runtime.Object{newJob(suspended, started), newPod("a")}, "", "action=pods_deleted completion_mode=NonIndexed result=success 1"},
		{"JOB-30, JOB-83a: the status cannot be written", []runtime.Object{newJob(started), newPod("a")}, "update jobs/status", "action=tracking completion_mode=NonIndexed result=error 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, defaults, test.objects...)
			if test.refused != "" {
				f.Refuse(test.refused, errBoom)
			}
			if err := f.Reconcile(); (err != nil) != (test.refused != "") {
				t.Errorf("the error is %v", err)
			}
			if got := f.metric(t, "job_controller_job_syncs_total"); got != test.want {
				t.Errorf("counted %q, want %q", got, test.want)
			}
		})
	}
}

// TestAReasonThatIsNoTextIsCounted: anybody who may write the status of a Job sets the reason of its failure, and the
// API server accepts any bytes.
//
// Pins JOB-118.
func TestAReasonThatIsNoTextIsCounted(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(1, 1), started, func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "\xff"}}
	}))
	f.MustReconcile(t)
	if got := f.metric(t, "job_controller_jobs_finished_total"); got != "completion_mode=NonIndexed reason=\uFFFD result=failed 1" {
		t.Errorf("counted %q", got)
	}
}
