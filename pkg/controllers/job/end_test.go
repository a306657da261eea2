package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

func TestDecideEnd(t *testing.T) {
	limit := func(n int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.BackoffLimit = &n }
	}
	deadline := func(seconds int64) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &seconds }
	}
	wasSuspended := func(status corev1.ConditionStatus) func(*batchv1.Job) {
		return withStatusCondition(batchv1.JobSuspended, status, "X")
	}
	onFailure := func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }
	restarted := func(init, regular int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{RestartCount: init}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: regular}}
		}
	}
	maxFailed := func(n int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = &n }
	}
	anySuccess := func(j *batchv1.Job) {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To[int32](1)}}}
	}
	const failJob = batchv1.PodFailurePolicyActionFailJob
	const tooMany = "FailureTarget BackoffLimitExceeded: Job has reached the specified backoff limit"
	const byPolicy = "FailureTarget PodFailurePolicy: Container c for pod ns/p failed with exit code 3 matching FailJob rule at index 0"
	const late = "FailureTarget DeadlineExceeded: Job was active longer than specified deadline"
	pods := func(all ...*corev1.Pod) []*corev1.Pod { return all }
	for _, test := range []struct {
		name string
		job  *batchv1.Job
		pods []*corev1.Pod
		want string
	}{
		{"goes on", newJob(), pods(newPod("p")), ""},
		{"JOB-40a, JOB-92: success was reported, failure is not looked at", newJob(limit(0), withStatusCondition(batchv1.JobSuccessCriteriaMet, "True", "X")), pods(newPod("p", failed)),
			"SuccessCriteriaMet X: because X"},
		{"JOB-40b, JOB-92: failure was reported", newJob(indexed, anySuccess, withStatusCondition(batchv1.JobFailureTarget, "True", "X")), pods(newPod("p", succeeded, atIndex(0))),
			"Failed X: because X"},
		{"JOB-40b: failure was reported as false", newJob(withStatusCondition(batchv1.JobFailureTarget, "False", "X")), nil, ""},
		{"JOB-134: the pod succeeded before it failed", newJob(limit(0), func(j *batchv1.Job) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"p"}}
		}), pods(newPod("p", failed)), ""},
		{"JOB-40c: a rule fails the job", newJob(limit(0), withFailurePolicy(onExit(failJob, 3))), pods(newPod("p", exited(3, 0))), byPolicy},
		{"JOB-40c: a pod that was counted still fails the job", newJob(withFailurePolicy(onExit(failJob, 3))), pods(newPod("p", exited(3, 0), untracked)), byPolicy},
		{"JOB-40c: a rule does not apply to a pod that has not failed", newJob(withFailurePolicy(onExit(failJob, 3))), pods(newPod("p", exited(3, 0), inPhase(corev1.PodRunning))), ""},
		{"JOB-40d: failures up to the limit", newJob(limit(1)), pods(newPod("p", failed)), ""},
		{"JOB-40d: failures past the limit", newJob(limit(1)), pods(newPod("p", failed), newPod("q", failed)), tooMany},
		{"JOB-37, JOB-40d: failures counted before", newJob(limit(3), func(j *batchv1.Job) {
			j.Status.Failed = 2
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"u"}}
		}), pods(newPod("p", failed), newPod("u", failed)), tooMany},
		{"JOB-37: ignored failures", newJob(limit(0), withFailurePolicy(onExit(batchv1.PodFailurePolicyActionIgnore, 3))), pods(newPod("p", exited(3, 0))), ""},
		{"JOB-40d: restarts below the limit", newJob(limit(3), onFailure), pods(newPod("p", restarted(1, 1))), ""},
		{"JOB-40d: restarts of several pods", newJob(limit(3), onFailure), pods(newPod("p", restarted(1, 1)), newPod("q", restarted(0, 1), inPhase(corev1.PodPending))), tooMany},
		{"JOB-40d: restarts of finished pods", newJob(limit(3), onFailure), pods(newPod("p", restarted(9, 9), succeeded)), ""},
		{"JOB-40d: one restart without any allowed", newJob(limit(0), onFailure), pods(newPod("p", restarted(1, 0))), tooMany},
		{"JOB-40d: no restart without any allowed", newJob(limit(0), onFailure), pods(newPod("p", restarted(0, 0))), ""},
		{"JOB-40d: restarts of pods that never restart", newJob(limit(0)), pods(newPod("p", restarted(9, 9))), ""},
		{"JOB-40e: the deadline is reached", newJob(started, deadline(3600)), nil, late},
		{"JOB-40e: the deadline is ahead", newJob(started, deadline(3601)), nil, ""},
		{"JOB-115: the deadline never comes", newJob(started, deadline(9999999999)), nil, ""},
		{"JOB-115: the deadline never comes, and the Job starts in the future", newJob(deadline(9999999999), func(j *batchv1.Job) {
			j.Status.StartTime = &metav1.Time{Time: start.Add(time.Hour)}
		}), nil, ""},
		{"JOB-40e: the deadline of a suspended job", newJob(started, deadline(1), suspended), nil, ""},
		{"JOB-122: the deadline of a job that is resumed", newJob(started, deadline(1), wasSuspended("True")), nil, ""},
		{"JOB-40e: the deadline of a job that was resumed", newJob(started, deadline(1), wasSuspended("False")), nil, late},
		{"JOB-40f: indexes succeeded, one failed", newJob(perIndex(0), sized(2, 2)), pods(newPod("p", failed, atIndex(0)), newPod("q", succeeded, atIndex(1))),
			"FailureTarget FailedIndexes: Job has failed indexes"},
		{"JOB-40f: an index is open", newJob(perIndex(0), sized(3, 3)), pods(newPod("p", failed, atIndex(0)), newPod("q", succeeded, atIndex(1))), ""},
		{"JOB-40f: too many failed indexes", newJob(perIndex(0), sized(9, 9), maxFailed(1)), pods(newPod("p", failed, atIndex(0)), newPod("q", failed, atIndex(1))),
			"FailureTarget MaxFailedIndexesExceeded: Job has exceeded the specified maximal number of failed indexes"},
		{"JOB-40f: as many failed indexes as allowed", newJob(perIndex(0), sized(9, 9), maxFailed(2)), pods(newPod("p", failed, atIndex(0)), newPod("q", failed, atIndex(1))), ""},
		{"JOB-89: any number of failures with a limit per index", newJob(perIndex(2), sized(9, 9), func(j *batchv1.Job) { j.Status.Failed = 100 }), nil, ""},
		{"JOB-40g: the success policy is met", newJob(indexed, sized(2, 2), anySuccess), pods(newPod("p", succeeded, atIndex(1)), newPod("q", atIndex(0))),
			"SuccessCriteriaMet SuccessPolicy: Matched rules at index 0"},
		{"JOB-92: failure before success", newJob(indexed, sized(2, 2), anySuccess, limit(0)), pods(newPod("p", succeeded, atIndex(1)), newPod("q", failed, atIndex(0))), tooMany},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := conditionText(look(test.job, test.pods...).decideEnd()); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Pins JOB-40e.
func TestDeadlineIsWaitedFor(t *testing.T) {
	r := look(newJob(started, func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](3630) }))
	if r.decideEnd() != nil || !slices.Equal(r.wakeUps, []time.Duration{30 * time.Second}) {
		t.Errorf("woken up after %v", r.wakeUps)
	}
}

// Pins JOB-42.
func TestReachedCompletions(t *testing.T) {
	for _, test := range []struct {
		completions, succeeded, active int32
		want                           bool
	}{
		{2, 1, 0, false},
		{2, 2, 0, true},
		{2, 3, 0, true},
		{2, 2, 1, false},
		{0, 0, 0, true},
		{-1, 0, 0, false},
		{-1, 1, 1, false},
		{-1, 1, 0, true},
	} {
		r := look(newJob(sized(test.completions, 1), func(j *batchv1.Job) { j.Status.Succeeded = test.succeeded }))
		want := ""
		if test.want {
			want = "SuccessCriteriaMet CompletionsReached: Reached expected number of succeeded pods"
		}
		if got := conditionText(r.reachedCompletions(test.active)); got != want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// It was being deleted, and counted as failed, before it succeeded: the status does not count it as succeeded. Pins
// JOB-136.
func TestAPodThatCountsAsFailedIsNoCompletion(t *testing.T) {
	r := look(newJob(started, func(j *batchv1.Job) {
		j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"p"}}
	}), newPod("p", leaving, succeeded))
	if got := conditionText(r.reachedCompletions(0)); got != "" || r.succeeded != 0 || r.failed != 1 {
		t.Errorf("%d succeeded and %d failed: %q", r.succeeded, r.failed, got)
	}
}

// Pins JOB-35.
func TestObserveCountsPods(t *testing.T) {
	job := newJob(sized(9, 9), func(j *batchv1.Job) {
		j.Status.Succeeded, j.Status.Failed = 10, 20
		j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"us"}, Failed: []types.UID{"uf"}}
	})
	all := []*corev1.Pod{
		newPod("running", ready), newPod("pending", inPhase(corev1.PodPending)), newPod("leaving", leaving),
		newPod("s", succeeded), newPod("f", failed), newPod("us", succeeded), newPod("uf", failed),
		newPod("gone-s", succeeded, untracked), newPod("gone-f", failed, untracked), newPod("removed", succeeded),
	}
	r := observe(job, replacementOf(job, true), all, sets.New[types.UID]("removed"), backoffRecord{}, start)
	got := fmt.Sprint(len(r.active), r.ready, r.terminating, r.succeeded, r.failed, controllertest.Names(r.newSucceeded), controllertest.Names(r.newFailed))
	if want := "2 1 1 12 23 [s] [f leaving]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if job.Status.StartTime == nil || !job.Status.StartTime.Time.Equal(start) {
		t.Errorf("started at %v", job.Status.StartTime)
	}
}

// Pins JOB-38.
func TestObserveStartsNoSuspendedJob(t *testing.T) {
	r := look(newJob(suspended))
	if r.job.Status.StartTime != nil || r.job.Status.UncountedTerminatedPods == nil {
		t.Errorf("the status is %+v", r.job.Status)
	}
	earlier := metav1.NewTime(start.Add(-time.Hour))
	if r := look(newJob(started)); !r.job.Status.StartTime.Equal(&earlier) {
		t.Errorf("the start time is %v", r.job.Status.StartTime)
	}
}
