package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

var errBoom = errors.New("boom")

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

// Pins JOB-44, JOB-51, JOB-52 and JOB-85.
func TestStatusIsWrittenBeforeFinalizersGo(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(2, 2), started), newPod("a", succeeded), newPod("b", succeeded))
	works := f.Refuse("update jobs/status", errBoom)
	err := f.Reconcile()
	if err == nil || err.Error() != "tracking status: adding uncounted pods to status: boom" {
		t.Errorf("the error is %v", err)
	}
	f.WantRequests(t, "update jobs/status")
	works()
	f.Refuse("patch pods b", errBoom)
	if err = f.Reconcile(); !errors.Is(err, errBoom) {
		t.Errorf("the error is %v", err)
	}
	s := f.stored(t).Status
	if s.Succeeded != 1 || len(s.UncountedTerminatedPods.Succeeded) != 1 || s.UncountedTerminatedPods.Succeeded[0] != "b" {
		t.Errorf("the status is %+v", s)
	}
	if conditionsOf(f.stored(t)) != "SuccessCriteriaMet=True CompletionsReached" {
		t.Errorf("conditions %s", conditionsOf(f.stored(t)))
	}
}

// Pins JOB-46 and JOB-104.
func TestAStaleCacheCountsNothingTwice(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	f := newFixture(t, cfg, newJob(sized(3, 3), started), newPod("a", succeeded), newPod("b"), newPod("c"))
	f.MustReconcile(t)
	f.Requests()
	// The Job is seen, the pods are not.
	f.Cache(t, f.stored(t))
	f.MustReconcile(t)
	if s := f.stored(t).Status; s.Succeeded != 1 || len(s.UncountedTerminatedPods.Succeeded) != 0 {
		t.Errorf("the status is %+v", s)
	}
	if got := strings.Join(f.Requests(), ", "); strings.Contains(got, "patch") {
		t.Errorf("requests %s", got)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
	if f.c.memory.removals.knows(key) {
		t.Error("a removal that was seen is remembered")
	}
}

// A removal is not forgotten because the cache shows it after the pods were listed: the list still has the pod with its
// finalizer.
func TestARemovalThatIsSeenAfterThePodsWereListedIsNotCountedAgain(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	f := newFixture(t, cfg, newJob(sized(3, 3), started, func(j *batchv1.Job) { j.Status.Succeeded = 1 }),
		newPod("counted", succeeded), newPod("orphan", alone))
	f.c.memory.removals.add(key, []*corev1.Pod{newPod("counted")})
	f.Fake.PrependReactor("patch", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		if action.(ktesting.PatchAction).GetName() == "orphan" { // adopted, between the list and the count
			f.Cache(t, newPod("counted", succeeded, untracked))
		}
		return false, nil, nil
	})
	f.MustReconcile(t)
	if s := f.stored(t).Status; s.Succeeded != 1 || len(s.UncountedTerminatedPods.Succeeded) != 0 {
		t.Errorf("the status is %+v", s)
	}
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

// Pins JOB-24.
func TestStaleCachesAreWaitedFor(t *testing.T) {
	f := newFixture(t, defaults, newJob())
	f.EmptyCache(t, &corev1.Pod{}, "5")
	f.MustReconcile(t)
	f.Requests()
	err := f.Reconcile()
	if !reconcile.IsExpected(err) || !strings.Contains(err.Error(), "read version: 5 is not as new as written version: 1001 for group resource pods") {
		t.Errorf("the error is %v", err)
	}
	f.WantRequests(t)
	if got := f.metric(t, "job_controller_stale_sync_skips_total"); got != "group= resource=pods 1" {
		t.Errorf("counted %q", got)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
}

// Pins JOB-104.
func TestUnseenPodsKeepAJobFromActing(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	f := newFixture(t, cfg, newJob())
	f.EmptyCache(t, &corev1.Pod{}, "5")
	f.MustReconcile(t)
	f.Requests()
	f.Cache(t, f.stored(t))
	f.Queued.Take()
	f.MustReconcile(t)
	if got := strings.Join(f.Requests(), ", "); strings.Contains(got, "create") {
		t.Errorf("requests %s", got)
	}
	f.Queued.Want(t, "ns/pi in 1s")
}

// What the caches learn after the pods were listed does not make the list complete.
// Pins JOB-32.
func TestPodsThatAreSeenAfterTheListAreNotMissing(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	f := newFixture(t, cfg, newJob(sized(3, 3)))
	f.EmptyCache(t, &corev1.Pod{}, "5")
	f.MustReconcile(t)
	created := f.storedPods(t)
	f.Cache(t, f.stored(t))
	f.Cache(t, newPod("orphan", alone))
	f.Requests()
	f.Intercept("patch pods orphan", func(ktesting.Action) error { // between the list and the plan
		for _, pod := range created {
			f.Cache(t, pod)
		}
		return apierrors.NewNotFound(corev1.Resource("pods"), "orphan")
	})
	f.MustReconcile(t)
	if got := strings.Join(f.Requests(), ", "); !strings.HasPrefix(got, "get jobs pi, patch pods orphan") || strings.Contains(got, "create") {
		t.Errorf("requests %s", got)
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

// Pins JOB-41.
func TestAJobDoesNotEndWithPodsThatCannotBeDeleted(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(2, 2), started, func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) }),
		newPod("f", failed), newPod("a", ready), newPod("b"))
	works := f.Refuse("delete pods a", errBoom)
	if err := f.Reconcile(); !errors.Is(err, errBoom) {
		t.Errorf("the error is %v", err)
	}
	job := f.stored(t)
	if s := job.Status; s.Active != 1 || *s.Ready != 0 || *s.Terminating != 1 || conditionsOf(job) != "" {
		t.Errorf("the status is %+v", s)
	}
	works()
	f.CatchUp(t)
	f.MustReconcile(t)
	if got := conditionsOf(f.stored(t)); got != "FailureTarget=True BackoffLimitExceeded" {
		t.Errorf("conditions %s", got)
	}
}

// The cache shows a pod that was deleted and created again under its name. Pins WL-112.
func TestTheSuccessorOfAPodIsNotDeletedInItsPlace(t *testing.T) {
	failing := func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) }
	for name, test := range map[string]struct {
		change func(*batchv1.Job)
		pods   []runtime.Object
		events []string
	}{
		"the Job ends":         {failing, []runtime.Object{newPod("f", failed), newPod("a")}, nil},
		"the Job is suspended": {suspended, []runtime.Object{newPod("a", untracked)}, []string{"Normal Suspended Job suspended"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, defaults, append(test.pods, newJob(sized(2, 2), started, test.change))...)
			f.Intercept("delete pods a", func(action ktesting.Action) error {
				if uid := action.(ktesting.DeleteActionImpl).DeleteOptions.Preconditions; uid == nil || *uid.UID != newPod("a").UID {
					return nil
				}
				return apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("other UID"))
			})
			if err := f.Reconcile(); !reconcile.IsExpected(err) {
				t.Errorf("got %v", err)
			}
			f.WantEvents(t, test.events...)
			if s := f.stored(t).Status; s.Active != 1 || conditionsOf(f.stored(t)) == "FailureTarget=True BackoffLimitExceeded" {
				t.Errorf("the status is %+v", s)
			}
			f.CatchUp(t)
			if err := f.Reconcile(); !reconcile.IsExpected(err) {
				t.Errorf("it waits: %v", err)
			}
		})
	}
}

// Pins JOB-4, JOB-42, JOB-87 and JOB-100.
func TestSuspendAndResume(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(2, 2), started, suspended), newPod("a", ready), newPod("b"))
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "patch pods a", "patch pods b", "delete pods a", "delete pods b", "update jobs/status")
	job := f.stored(t)
	if s := job.Status; s.Active != 0 || *s.Ready != 0 || *s.Terminating != 2 || s.Failed != 0 || s.StartTime != nil {
		t.Errorf("the status is %+v", s)
	}
	if c := job.Status.Conditions; conditionsOf(job) != "Suspended=True JobSuspended" || c[0].Message != "Job suspended" {
		t.Errorf("conditions %s", conditionsOf(job))
	}
	events := f.RecordedEvents()
	slices.Sort(events)
	want := []string{"Normal SuccessfulDelete Deleted pod: a", "Normal SuccessfulDelete Deleted pod: b", "Normal Suspended Job suspended"}
	if !slices.Equal(events, want) {
		t.Errorf("events %q", events)
	}

	f.Clock.Step(time.Minute)
	controllertest.Change(t, f.Env, "ns", "pi", func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) })
	f.CatchUp(t)
	f.MustReconcile(t)
	job = f.stored(t)
	if s := job.Status; s.Active != 2 || !s.StartTime.Time.Equal(f.Clock.Now()) || conditionsOf(job) != "Suspended=False JobResumed" {
		t.Errorf("the status is %+v", s)
	}
	events = f.RecordedEvents()
	if len(events) != 3 || events[2] != "Normal Resumed Job resumed" {
		t.Errorf("events %q", events)
	}
}

// A pod that was not reached before the instance ended still has its finalizer. Pins JOB-107.
func TestOnlyPodsWhoseFinalizerWasRemovedAreRemembered(t *testing.T) {
	f := newFixture(t, defaults, newJob(started, suspended), newPod("a"), newPod("b"))
	ctx, end := context.WithCancel(f.Context())
	end()
	if err := f.c.owners.Reconcile(ctx, key); !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v", err)
	}
	if left := f.c.memory.removals.jobs[key]; len(left) != 0 {
		t.Errorf("remembered are %v", left)
	}
}

// Pins JOB-70.
func TestVictimsAreNotReadyOnceTheyLostTheirFinalizer(t *testing.T) {
	for _, test := range []struct {
		name, verb string
		ready      int32
	}{
		{"the deletion fails (E3)", "delete", 0},
		{"the patch fails (E3)", "patch", 1},
	} {
		f := newFixture(t, defaults, newJob(started, suspended), newPod("a", ready))
		f.Refuse(test.verb+" pods a", errBoom)
		if err := f.Reconcile(); !errors.Is(err, errBoom) {
			t.Errorf("%s: the error is %v", test.name, err)
		}
		if s := f.stored(t).Status; s.Active != 1 || *s.Ready != test.ready || *s.Terminating != 0 {
			t.Errorf("%s: active %d, ready %d, terminating %d", test.name, s.Active, *s.Ready, *s.Terminating)
		}
	}
}

// A pod that still runs would otherwise be waited for, or would outlive its Job. Pins WL-117.
func TestTheAnswerOfAProxyIsNoDeletion(t *testing.T) {
	ofAProxy := apierrors.NewGenericServerResponse(
		http.StatusNotFound, "delete", corev1.Resource("pods"), "a", "404 page not found", 0, true)
	tooLong := func(job *batchv1.Job) { job.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) }
	for name, change := range map[string]func(*batchv1.Job){"suspended": suspended, "past its deadline": tooLong} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, defaults, newJob(started, change), newPod("a"))
			works := f.Refuse("delete pods a", ofAProxy)
			if err := f.Reconcile(); !errors.Is(err, ofAProxy) {
				t.Errorf("the error is %v", err)
			}
			if job := f.stored(t); job.Status.Active != 1 || conditionsOf(job) != "" && !isSuspended(job) {
				t.Errorf("the status is %+v", job.Status)
			}
			works()
			f.CatchUp(t)
			if err := f.Reconcile(); err != nil {
				t.Errorf("the error is %v", err)
			}
			if requests := f.Requests(); !slices.Contains(requests, "delete pods a") {
				t.Errorf("requests are %q", requests)
			}
		})
	}
}

// Pins JOB-4.
func TestStartTimeOfASuspendedJobMayStay(t *testing.T) {
	cfg := defaults
	cfg.resetStartTimeOfSuspended = false
	f := newFixture(t, cfg, newJob(started, suspended))
	f.MustReconcile(t)
	if f.stored(t).Status.StartTime == nil {
		t.Error("the start time is gone")
	}
}

// It was suspended by a version that keeps the start time. Pins JOB-42 and JOB-122.
func TestTheDeadlineOfAResumedJobBeginsAnew(t *testing.T) {
	cfg := defaults
	cfg.resetStartTimeOfSuspended = false
	f := newFixture(t, cfg, newJob(started, suspended, func(j *batchv1.Job) {
		j.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	}))
	f.MustReconcile(t)
	controllertest.Change(t, f.Env, "ns", "pi", func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) })
	for range 2 {
		f.CatchUp(t)
		f.MustReconcile(t)
	}
	job := f.stored(t)
	if s := job.Status; s.Active != 1 || !s.StartTime.Time.Equal(f.Clock.Now()) || conditionsOf(job) != "Suspended=False JobResumed" {
		t.Errorf("the status is %+v", s)
	}
	f.Queued.Want(t, "ns/pi in 1m0s")
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

// Pins JOB-33.
func TestAnAdoptedFinishedPodIsCounted(t *testing.T) {
	f := newFixture(t, defaults, newJob(started), newPod("orphan", alone, untracked, succeeded))
	f.MustReconcile(t)
	if s := f.stored(t).Status; s.Succeeded != 1 {
		t.Errorf("the status is %+v", s)
	}
}

// Pins JOB-72.
func TestCreationFailures(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(5, 5)))
	refusal := apierrors.NewBadRequest("boom")
	works := f.Refuse("create pods", refusal)
	if err := f.Reconcile(); !errors.Is(err, refusal) {
		t.Errorf("the error is %v", err)
	}
	f.WantRequests(t, "create pods", "update jobs/status")
	if s := f.stored(t).Status; s.Active != 0 {
		t.Errorf("the status is %+v", s)
	}
	f.WantEvents(t, "Warning FailedCreate Error creating: boom")
	if got := f.metric(t, "job_controller_job_syncs_total"); got != "action=pods_created completion_mode=NonIndexed result=error 1" {
		t.Errorf("counted %q", got)
	}
	works()
	f.CatchUp(t)
	f.MustReconcile(t)
	if s := f.stored(t).Status; s.Active != 5 {
		t.Errorf("the status is %+v", s)
	}
}

// A Job does not end while an unanswered create may have produced a pod. Pins WL-115.
func TestAJobDoesNotEndWhileAPodMayExist(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(1, 1), started, func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](7200) }))
	f.Refuse("create pods", io.ErrUnexpectedEOF)
	if err := f.Reconcile(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v", err)
	}
	f.CatchUp(t)
	f.Requests()
	f.Clock.Step(time.Second)
	if err := f.Reconcile(); !errors.Is(err, writes.ErrUncertain) {
		t.Errorf("got %v", err)
	}
	f.WantRequests(t)
	if got := f.metric(t, "job_controller_job_syncs_total"); strings.Count(got, "result=error 1") != 1 || !strings.Contains(got, "result=success 1") {
		t.Errorf("counted %q", got)
	}

	f.Clock.Step(2 * time.Hour)
	f.c.owners.Writes.CreateUncertain(f.stored(t), "") // of another attempt, just before the deadline
	if err := f.Reconcile(); !errors.Is(err, writes.ErrUncertain) {
		t.Errorf("got %v", err)
	}
	if got := conditionsOf(f.stored(t)); got != "" {
		t.Errorf("conditions %s", got)
	}
	f.CatchUp(t)
	f.Clock.Step(reconcile.RecheckAfter)
	f.MustReconcile(t)
	if got := conditionsOf(f.stored(t)); !strings.Contains(got, "Failed=True DeadlineExceeded") {
		t.Errorf("conditions %s", got)
	}
}

// Without a number of completions nothing is created once a pod has succeeded, and the Job would be complete. Pins
// WL-115.
func TestAJobIsNotCompleteWhileAPodMayExist(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(-1, 2), started), newPod("a", succeeded))
	f.c.owners.Writes.CreateUncertain(newJob(), "")
	if err := f.Reconcile(); !errors.Is(err, writes.ErrUncertain) {
		t.Errorf("got %v", err)
	}
	if s := f.stored(t).Status; s.Succeeded != 1 || conditionsOf(f.stored(t)) != "" {
		t.Errorf("the status is %+v", s)
	}
	f.CatchUp(t)
	f.Clock.Step(reconcile.RecheckAfter)
	f.MustReconcile(t)
	if got := conditionsOf(f.stored(t)); !strings.Contains(got, "Complete=True CompletionsReached") {
		t.Errorf("conditions %s", got)
	}
}

// Pins JOB-72.
func TestANamespaceThatIsGoingIsNoFailure(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(5, 5)))
	going := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errBoom)
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	f.Refuse("create pods", going)
	f.MustReconcile(t)
	f.WantEvents(t)
	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequests(t)
}

// Pins JOB-39 and JOB-64.
func TestBackoffIsRememberedOnceReported(t *testing.T) {
	f := newFixture(t, defaults, newJob(started), newPod("f", exited(1, 4*time.Second)))
	works := f.Refuse("update jobs/status", errBoom)
	if err := f.Reconcile(); err == nil || f.c.memory.backoffs.knows(key) {
		t.Errorf("error %v, remembered %t", err, f.c.memory.backoffs.knows(key))
	}
	works()
	f.Queued.Take()
	f.MustReconcile(t)
	if got, _ := f.c.memory.backoffs.get(key, "job-uid"); got.failures != 1 {
		t.Errorf("remembered %+v", got)
	}
	f.Queued.Want(t, "ns/pi in 6s")
	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequests(t)
	f.Clock.Step(7 * time.Second)
	f.MustReconcile(t)
	f.WantRequests(t, "create pods", "update jobs/status")
}

// The clock of a node does not put off the replacement of its pods. Pins JOB-116.
func TestAClockThatIsAhead(t *testing.T) {
	ahead := exited(1, -24*time.Hour)
	for name, test := range map[string]struct {
		job *batchv1.Job
		pod *corev1.Pod
	}{
		"Job":   {newJob(started), newPod("f", ahead)},
		"index": {newJob(started, perIndex(5)), newPod("f", ahead, atIndex(0))},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, defaults, test.job, test.pod)
			f.MustReconcile(t)
			f.Queued.Want(t, "ns/pi in 10s")
			f.CatchUp(t)
			f.Clock.Step(4 * time.Second)
			f.MustReconcile(t)
			f.Requests()
			f.Queued.Want(t, "ns/pi in 6s")
			f.Clock.Step(6 * time.Second)
			f.MustReconcile(t)
			if got := strings.Join(f.Requests(), ", "); !strings.HasPrefix(got, "create pods") {
				t.Errorf("after the delay: %q", got)
			}
		})
	}
}

// Pins JOB-123.
func TestAClockThatIsSetBack(t *testing.T) {
	failed := exited(1, 0)
	for name, test := range map[string]struct {
		job *batchv1.Job
		pod *corev1.Pod
	}{
		"Job":   {newJob(started), newPod("f", failed)},
		"index": {newJob(started, perIndex(5)), newPod("f", failed, atIndex(0))},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, defaults, test.job, test.pod)
			f.MustReconcile(t)
			f.Queued.Want(t, "ns/pi in 10s")
			f.CatchUp(t)
			f.Clock.Step(-24 * time.Hour)
			for _, wait := range []string{"10s", "6s"} {
				f.MustReconcile(t)
				f.Queued.Want(t, "ns/pi in "+wait)
				f.Clock.Step(4 * time.Second)
			}
			f.Clock.Step(2 * time.Second)
			f.Requests()
			f.MustReconcile(t)
			if got := strings.Join(f.Requests(), ", "); !strings.HasPrefix(got, "create pods") {
				t.Errorf("after the delay: %q", got)
			}
		})
	}
}

// Pins JOB-116.
func TestSightingsEndWithTheirPods(t *testing.T) {
	f := newFixture(t, defaults, newJob(started, perIndex(5)), newPod("f", exited(1, -24*time.Hour), atIndex(0)))
	f.MustReconcile(t)
	if got, _ := f.c.memory.sightings.get(key, "job-uid"); len(got) != 1 {
		t.Errorf("sighted %v", got)
	}
	f.CatchUp(t)
	f.Uncache(t, newPod("f"))
	f.MustReconcile(t)
	if f.c.memory.sightings.knows(key) {
		t.Error("the sighting is remembered")
	}
}

// Pins JOB-86.
func TestPodsThatRunAreCountedWhileAFailedOneBacksOff(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(2, 2), started), newPod("f", exited(1, 4*time.Second)), newPod("r", ready))
	for range 2 {
		f.MustReconcile(t)
		if s := f.stored(t).Status; s.Active != 1 || *s.Ready != 1 || s.Failed != 1 {
			t.Errorf("the status is %+v", s)
		}
		if got := strings.Join(f.Requests(), ", "); strings.Contains(got, "create") {
			t.Errorf("requests %s", got)
		}
		f.CatchUp(t)
	}
}

// Pins JOB-64.
func TestBackoffIsRememberedWithTheFirstWriteOnly(t *testing.T) {
	// The status knows one pod already, so there is nothing to write before its finalizer goes.
	f := newFixture(t, defaults, newJob(sized(2, 2), started, withFailurePolicy(onExit(batchv1.PodFailurePolicyActionIgnore, 6)), func(j *batchv1.Job) {
		j.Status.Active = 1
		j.Status.UncountedTerminatedPods.Succeeded = []types.UID{"s"}
	}), newPod("s", succeeded), newPod("r"), newPod("i", exited(6, 0)))
	f.MustReconcile(t)
	if got := strings.Join(f.Requests(), ", "); !strings.HasPrefix(got, "patch pods") || f.c.memory.backoffs.knows(key) {
		t.Errorf("D1: requests %s, remembered %t", got, f.c.memory.backoffs.knows(key))
	}
}

func TestBackoffBelongsToOneJobOfItsName(t *testing.T) {
	f := newFixture(t, defaults, newJob(started), newPod("f", exited(1, 4*time.Second)))
	var once sync.Once
	f.Fake.PrependReactor("update", "jobs", func(ktesting.Action) (bool, runtime.Object, error) {
		once.Do(func() { f.c.jobDeleted(newJob()) }) // while a reconcile is under way
		return false, nil, nil
	})
	f.MustReconcile(t)
	f.Requests()
	recreated := newJob(func(j *batchv1.Job) { j.UID, j.ResourceVersion = "new", "2000" })
	if err := f.CacheOf(t, recreated).Replace([]any{recreated}, "2000000"); err != nil {
		t.Fatal(err)
	}
	f.EmptyCache(t, &corev1.Pod{}, "2000000")
	f.MustReconcile(t)
	if got := strings.Join(f.Requests(), ", "); !strings.HasPrefix(got, "create pods") {
		t.Errorf("requests %q: the failures of an earlier Job delay the pods of this one", got)
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

// Pins JOB-104.
func TestARemovalThatIsNotSeenForLongIsLookedUp(t *testing.T) {
	for _, test := range []struct {
		name string
		live *corev1.Pod // nil: the pod is gone
		want string
	}{
		{"it is gone", nil, "list pods"},
		{"it lost the finalizer", newPod("p", succeeded, untracked), "list pods"},
		{"another pod has the name", newPod("p", succeeded, func(p *corev1.Pod) { p.UID = "new" }), "list pods"},
		{"it has the finalizer again", newPod("p", succeeded), "list pods, update jobs/status, patch pods p, update jobs/status"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, defaults, newJob(sized(2, 1), started, func(j *batchv1.Job) { j.Status.Active = 1 }), newPod("r"))
			f.Cache(t, newPod("p", succeeded))
			if test.live != nil {
				if err := f.Fake.Tracker().Add(test.live); err != nil {
					t.Fatal(err)
				}
			}
			f.c.memory.removals.add(key, []*corev1.Pod{newPod("p")})
			f.Clock.Step(writes.Timeout - time.Second)
			f.MustReconcile(t)
			f.WantRequests(t)
			f.Clock.Step(time.Second)
			f.MustReconcile(t)
			f.WantRequests(t, listed(test.want)...)
			f.Clock.Step(time.Minute)
			f.MustReconcile(t)
			f.WantRequests(t) // not with every reconcile
		})
	}
}

// An admission webhook answers with NotFound, and the pod keeps its finalizer. Pins JOB-85 and JOB-121.
func TestNotFoundIsNoRemovalOfAFinalizer(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(2, 1), started), newPod("p", succeeded))
	works := f.Refuse("patch pods p", apierrors.NewNotFound(corev1.Resource("pods"), "p"))
	for range 2 {
		if err := f.Reconcile(); !reconcile.IsRequeue(err) {
			t.Errorf("the error is %v", err)
		}
		f.CatchUp(t)
		if s := f.stored(t).Status; s.Succeeded != 0 || !slices.Equal(s.UncountedTerminatedPods.Succeeded, []types.UID{"p"}) {
			t.Errorf("the status is %+v", s)
		}
		f.Clock.Step(writes.Timeout)
	}
	works()
	f.MustReconcile(t)
	if job := f.stored(t); job.Status.Succeeded != 1 || conditionsOf(job) != "" {
		t.Errorf("the status is %+v", job.Status)
	}
}

// Pins JOB-52 and JOB-121.
func TestAPodThatIsGoneIsCountedOnceTheCacheShowsIt(t *testing.T) {
	f := newFixture(t, defaults, newJob(started), newPod("p", succeeded))
	f.Refuse("patch pods p", apierrors.NewNotFound(corev1.Resource("pods"), "p"))
	if err := f.Reconcile(); !reconcile.IsRequeue(err) {
		t.Errorf("the error is %v", err)
	}
	f.Remove(t, newPod("p"))
	f.CatchUp(t)
	f.MustReconcile(t)
	if got, want := conditionsOf(f.stored(t)), "SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached"; got != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
}

// Pins JOB-25.
func TestAJobThatIsGoneIsForgotten(t *testing.T) {
	f := newFixture(t, defaults)
	f.rememberAll("u")
	f.MustReconcile(t)
	if f.c.memory.knows(key) {
		t.Error("it is remembered")
	}
}

// rememberAll makes the controller have state of every kind of the Job.
func (f *fixture) rememberAll(uid types.UID) {
	f.c.memory.backoffs.set(key, uid, backoffRecord{failures: 1, last: start})
	f.c.memory.sightings.set(key, uid, sightings{"p": start})
	f.c.memory.finished.set(key, uid, start)
	f.c.memory.removals.add(key, []*corev1.Pod{newPod("p")})
	f.c.memory.missed.add(key, "p")
}

// There is no event for a Job that was deleted between two instances. Pins JOB-117.
func TestASuccessorForgetsAJobThatIsGone(t *testing.T) {
	first := newFixture(t, defaults)
	first.rememberAll("job-uid")
	second := newFixture(t, defaults)
	second.c.takeOver(first.c.HandOver())
	second.Queued.Want(t, "ns/pi in 5m0s")
	if !second.c.memory.knows(key) {
		t.Error("the cache, which may be stale, is believed at once")
	}
	second.MustReconcile(t)
	if second.c.memory.knows(key) || len(second.c.HandOver().memory.jobs()) != 0 {
		t.Error("it is remembered")
	}
}

// Each kind of state alone makes a successor look at the Job. Pins JOB-117.
func TestASuccessorLooksAtEveryJobOfWhichItHasState(t *testing.T) {
	for kind, set := range map[string]func(*jobController){
		"backoff":  func(c *jobController) { c.memory.backoffs.set(key, "u", backoffRecord{failures: 1}) },
		"sighting": func(c *jobController) { c.memory.sightings.set(key, "u", sightings{"p": start}) },
		"finish":   func(c *jobController) { c.memory.finished.set(key, "u", start) },
		"removal":  func(c *jobController) { c.memory.removals.add(key, []*corev1.Pod{newPod("p")}) },
		"miss":     func(c *jobController) { c.memory.missed.add(key, "p") },
	} {
		first, second := newFixture(t, defaults), newFixture(t, defaults)
		set(first.c)
		second.c.takeOver(first.c.HandOver())
		if !second.c.memory.knows(key) {
			t.Errorf("%s: it was not handed over", kind)
		}
		second.Queued.Want(t, "ns/pi in 5m0s")
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

// Pins JOB-82.
func TestTooManySucceeded(t *testing.T) {
	f := newFixture(t, defaults, newJob(started), newPod("a", succeeded), newPod("b", succeeded))
	f.MustReconcile(t)
	f.WantEvents(t, "Warning TooManySucceededPods Too many succeeded pods running after completion count reached", "Normal Completed Job completed")
}

// Pins JOB-63.
func TestIndexedPodsAreNamedByIndex(t *testing.T) {
	f := newFixture(t, defaults, newJob(indexed, sized(1, 1)))
	f.MustReconcile(t)
	if pod := f.storedPods(t)[0]; pod.GenerateName != "pi-0-" || pod.Spec.Hostname != "pi-0" || pod.Labels[batchv1.JobCompletionIndexAnnotation] != "0" {
		t.Errorf("the pod is %+v", pod)
	}
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

// Pins JOB-97 and JOB-107.
func TestHandOver(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	first := newFixture(t, cfg, newJob(sized(9, 9), started), newPod("a", succeeded), newPod("f", exited(1, 0)))
	first.MustReconcile(t)
	second := newFixture(t, cfg, newJob(sized(9, 9), started, func(j *batchv1.Job) {
		j.Status.Succeeded, j.Status.Failed = 1, 1
	}), newPod("a", succeeded), newPod("f", exited(1, 0)))
	second.c.takeOver(first.c.HandOver())
	second.MustReconcile(t)
	if s := second.stored(t).Status; s.Succeeded != 1 || s.Failed != 1 || len(s.UncountedTerminatedPods.Succeeded) != 0 {
		t.Errorf("pods were counted again: %+v", s)
	}
	if got, _ := second.c.memory.backoffs.get(key, "job-uid"); got.failures != 1 {
		t.Errorf("remembered %+v", got)
	}
	if second.c.memory.removals.has(key, types.UID("other")) || !second.c.memory.removals.has(key, "a") {
		t.Error("removals were not handed over")
	}
}
