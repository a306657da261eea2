package job

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

// Pins JOB-63.
func TestIndexedPodsAreNamedByIndex(t *testing.T) {
	f := newFixture(t, defaults, newJob(indexed, sized(1, 1)))
	f.MustReconcile(t)
	if pod := f.storedPods(t)[0]; pod.GenerateName != "pi-0-" || pod.Spec.Hostname != "pi-0" || pod.Labels[batchv1.JobCompletionIndexAnnotation] != "0" {
		t.Errorf("the pod is %+v", pod)
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

// The cache shows it as running: what it has done would be done again. Pins JOB-137.
func TestAPodThatHasFinishedMeanwhileIsCounted(t *testing.T) {
	for name, change := range map[string]func(*batchv1.Job){"suspended": suspended, "scaled down": sized(1, 0)} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, defaults, newJob(started, change), newPod("a"))
			f.checkVersion(t, "a")
			f.Store(t, newPod("a", succeeded))
			if err := f.Reconcile(); !reconcile.IsExpected(err) {
				t.Errorf("got %v", err)
			}
			f.CatchUp(t)
			f.MustReconcile(t)
			if s := f.stored(t).Status; s.Succeeded != 1 {
				t.Errorf("the status is %+v", s)
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
	f.c.owners.Writes.CreateUncertain(f.stored(t), "", time.Time{}) // of another attempt, just before the deadline
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
	f.c.owners.Writes.CreateUncertain(newJob(), "", time.Time{})
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
	f.Refuse("create pods", namespaceGoing())
	f.MustReconcile(t)
	f.WantEvents(t)
	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequests(t)
}

func namespaceGoing() error {
	going := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errBoom)
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return going
}

// Pins JOB-139.
func TestNoFailedPodWaitsForItsReplacementInANamespaceThatIsGoing(t *testing.T) {
	for name, change := range map[string]func(*batchv1.Job){
		"replaces pods that terminate": started,
		"replaces pods that failed":    replacesFailed,
		"is suspended":                 suspended,
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", failed, leaving, atIndex(0))
			f := newFixture(t, defaults, newJob(perIndex(5), started, change), pod)
			f.Refuse("create pods", namespaceGoing())
			f.MustReconcile(t)
			for _, pod := range f.storedPods(t) {
				if isTracked(pod) {
					t.Errorf("%s waits for the pod that is to replace it", pod.Name)
				}
			}
		})
	}
}

// Pins JOB-139.
func TestAFailedPodThatIsDeletedWaitsForItsReplacement(t *testing.T) {
	f := newFixture(t, defaults, newJob(perIndex(5), started, suspended), newPod("p", failed, leaving, atIndex(0)))
	f.MustReconcile(t)
	if pods := f.storedPods(t); len(pods) != 1 || !isTracked(pods[0]) {
		t.Errorf("the pods are %v", pods)
	}
	if got := f.Queued.TakeDelay(key); got != askAgainAfter {
		t.Errorf("the API server is asked again after %v", got)
	}
}

// An admission webhook changes new pods. Without the finalizer, a pod that has succeeded would not be counted, and its work
// would be done again.
func TestPodsThatWouldNotBeCountedAreDeleted(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"WL-125: it lacks the finalizer":         untracked,
		"WL-125: the selector does not match it": func(p *corev1.Pod) { p.Labels = nil },
		"WL-125: it lacks the index":             func(p *corev1.Pod) { p.Annotations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, defaults, newJob(started, indexed))
			f.Intercept("create pods", func(action ktesting.Action) error {
				change(action.(ktesting.CreateAction).GetObject().(*corev1.Pod))
				return nil
			})
			if err := f.Reconcile(); err == nil || !strings.Contains(err.Error(), "admission webhook") {
				t.Errorf("the error is %v", err)
			}
			f.WantRequests(t, "create pods", "delete pods")
			if s := f.stored(t).Status; s.Active != 0 {
				t.Errorf("the status is %+v", s)
			}
		})
	}
}
