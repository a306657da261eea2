package job

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

// account does what the first half of track does to the status.
func account(r *reconciliation) *accounting {
	a := newAccounting(r, false)
	a.moveToCounters()
	a.count()
	a.reportIndexes()
	a.announceEnd()
	return a
}

func accountText(a *accounting) string {
	s := a.r.job.Status
	text := fmt.Sprintf("succeeded %d failed %d uncounted %v %v", s.Succeeded, s.Failed, s.UncountedTerminatedPods.Succeeded, s.UncountedTerminatedPods.Failed)
	if isIndexed(a.r.job) {
		text += fmt.Sprintf(" completed %q", s.CompletedIndexes)
		if s.FailedIndexes != nil {
			text += fmt.Sprintf(" failed %q", *s.FailedIndexes)
		}
	}
	return text + fmt.Sprintf(" removable %v changed %t", controllertest.Names(a.removable), a.changed)
}

func TestAccounting(t *testing.T) {
	counted := func(s, f int32, us, uf []types.UID) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Succeeded, j.Status.Failed = s, f
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: us, Failed: uf}
		}
	}
	deleting := func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: start} }
	completed := func(text string, n int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.Succeeded = text, n }
	}
	fails := newCondition(batchv1.JobFailureTarget, corev1.ConditionTrue, "R", "m", start)
	succeeds := newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, "R", "m", start)
	ignore := withFailurePolicy(onExit(batchv1.PodFailurePolicyActionIgnore, 6))
	uids := func(all ...types.UID) []types.UID { return all }
	pods := func(all ...*corev1.Pod) []*corev1.Pod { return all }
	for _, test := range []struct {
		name string
		job  *batchv1.Job
		pods []*corev1.Pod
		end  *batchv1.JobCondition
		want string
	}{
		{"nothing finished", newJob(), pods(newPod("p")), nil,
			"succeeded 0 failed 0 uncounted [] [] removable [] changed false"},
		{"JOB-48a, JOB-48b: finished pods", newJob(), pods(newPod("s", succeeded), newPod("f", failed), newPod("l", leaving)), nil,
			"succeeded 0 failed 0 uncounted [s] [f l] removable [f l s] changed true"},
		{"JOB-48: pods without the finalizer", newJob(), pods(newPod("s", succeeded, untracked), newPod("f", failed, untracked)), nil,
			"succeeded 0 failed 0 uncounted [] [] removable [] changed false"},
		{"JOB-47: pods in the status lost the finalizer", newJob(counted(1, 2, uids("s", "gone"), uids("f"))), pods(newPod("s", succeeded, untracked), newPod("f", failed, untracked)), nil,
			"succeeded 3 failed 3 uncounted [] [] removable [] changed true"},
		{"JOB-47: pods in the status still have the finalizer", newJob(counted(1, 2, uids("s"), uids("f"))), pods(newPod("s", succeeded), newPod("f", failed)), nil,
			"succeeded 1 failed 2 uncounted [s] [f] removable [f s] changed false"},
		{"JOB-48a: a pod that failed stays failed", newJob(counted(0, 0, nil, uids("p"))), pods(newPod("p", succeeded)), nil,
			"succeeded 0 failed 0 uncounted [] [p] removable [p] changed false"},
		{"JOB-134: a pod that succeeded stays succeeded", newJob(counted(0, 0, uids("p"), nil)), pods(newPod("p", failed)), nil,
			"succeeded 0 failed 0 uncounted [p] [] removable [p] changed false"},
		{"JOB-134: also if the Job fails", newJob(counted(0, 0, uids("p"), nil)), pods(newPod("p")), fails,
			"succeeded 0 failed 0 uncounted [p] [] removable [p] changed true"},
		{"JOB-48: terminating pods that may succeed", newJob(replacesFailed), pods(newPod("p", leaving)), nil,
			"succeeded 0 failed 0 uncounted [] [] removable [] changed false"},
		{"JOB-48b: the job fails with what runs", newJob(), pods(newPod("p"), newPod("s", succeeded)), fails,
			"succeeded 0 failed 0 uncounted [s] [p] removable [p s] changed true"},
		{"JOB-48b: the job succeeds without what runs", newJob(), pods(newPod("p"), newPod("f", failed)), succeeds,
			"succeeded 0 failed 0 uncounted [] [f] removable [f p] changed true"},
		{"JOB-48c: the job is deleted", newJob(deleting), pods(newPod("p"), newPod("f", failed)), nil,
			"succeeded 0 failed 0 uncounted [] [f] removable [f p] changed true"},
		{"JOB-48b: an ignored failure", newJob(ignore), pods(newPod("i", exited(6, 0)), newPod("f", exited(7, 0))), nil,
			"succeeded 0 failed 0 uncounted [] [f] removable [f i] changed true"},
		{"JOB-48a: indexes", newJob(indexed, sized(9, 9), completed("0,1", 2)), pods(newPod("s", succeeded, atIndex(2)), newPod("again", succeeded, atIndex(1)), newPod("f", failed, atIndex(4))), nil,
			`succeeded 3 failed 0 uncounted [] [f] completed "0-2" removable [again f s] changed true`},
		{"JOB-49: indexes of pods that were counted as failed", newJob(indexed, sized(9, 9), counted(0, 0, nil, uids("flip"))), pods(newPod("flip", succeeded, atIndex(2))), nil,
			`succeeded 1 failed 0 uncounted [] [flip] completed "2" removable [flip] changed true`},
		{"JOB-48c: indexes out of range", newJob(indexed, sized(2, 2)), pods(newPod("s", succeeded, atIndex(2)), newPod("f", failed, atIndex(3)), newPod("u", failed)), nil,
			`succeeded 0 failed 0 uncounted [] [] completed "" removable [f s u] changed false`},
		{"JOB-49: scaled down", newJob(indexed, sized(2, 2), completed("0-4", 5)), nil, nil,
			`succeeded 2 failed 0 uncounted [] [] completed "0,1" removable [] changed true`},
		{"JOB-49: failed indexes", newJob(perIndex(0), sized(9, 9)), pods(newPod("f", failed, atIndex(4))), nil,
			`succeeded 0 failed 0 uncounted [] [f] completed "" failed "4" removable [f] changed true`},
		{"JOB-48, JOB-61: a failed pod is retained for its index", newJob(perIndex(1), sized(9, 9)), pods(newPod("f", failed, atIndex(4))), nil,
			`succeeded 0 failed 0 uncounted [] [] completed "" failed "" removable [] changed true`},
		{"JOB-61: a failed pod is not retained once its replacement runs", newJob(perIndex(1), sized(9, 9)), pods(newPod("f", failed, atIndex(4)), newPod("r", atIndex(4))), nil,
			`succeeded 0 failed 0 uncounted [] [f] completed "" failed "" removable [f] changed true`},
		{"JOB-48: a failed pod is not retained once the Job ends", newJob(perIndex(1), sized(9, 9)), pods(newPod("f", failed, atIndex(4))), fails,
			`succeeded 0 failed 0 uncounted [] [f] completed "" failed "" removable [f] changed true`},
		{"failed indexes are taken back with the limit per index", newJob(indexed, sized(9, 9), func(j *batchv1.Job) { j.Status.FailedIndexes = ptr.To("4") }), nil, nil,
			`succeeded 0 failed 0 uncounted [] [] completed "" removable [] changed true`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := look(test.job, test.pods...)
			r.end = test.end
			if got := accountText(account(r)); got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

// Pins JOB-46.
func TestRemovedFinalizersAreNotCountedAgain(t *testing.T) {
	r := look(newJob(func(j *batchv1.Job) {
		j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"s"}}
	}), newPod("s", succeeded))
	r.removed.Insert("s")
	if got, want := accountText(account(r)), "succeeded 1 failed 0 uncounted [] [] removable [] changed true"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Pins JOB-49.
func TestIndexesOfPodsThatLostTheirFinalizerUnseenAreReported(t *testing.T) {
	r := look(newJob(indexed, sized(3, 3)), newPod("s", succeeded, atIndex(1)))
	r.removed.Insert("s")
	if got, want := accountText(account(r)), `succeeded 1 failed 0 uncounted [] [] completed "1" removable [] changed true`; got != want {
		t.Errorf("T4: got %s, want %s", got, want)
	}
}

// Pins JOB-51.
func TestPolicyActionsAreTallied(t *testing.T) {
	const ignore, count = batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount
	a := account(look(newJob(withFailurePolicy(onExit(ignore, 6), onExit(count, 7))),
		newPod("a", exited(6, 0)), newPod("b", exited(6, 0)), newPod("c", exited(7, 0)), newPod("d", exited(8, 0))))
	if len(a.handled) != 2 || a.handled[ignore] != 2 || a.handled[count] != 1 {
		t.Errorf("tallied %v", a.handled)
	}
}

// Pins JOB-48d.
func TestAccountingIsBounded(t *testing.T) {
	for _, test := range []struct {
		name string
		job  *batchv1.Job
		pods int
		want string
	}{
		{"below", newJob(sized(900, 900)), 499, "499 false"},
		{"at the bound", newJob(sized(900, 900)), 500, "500 true"},
		{"above", newJob(sized(900, 900)), 700, "500 true"},
		{"JOB-46, JOB-49: indexes are all reported, the finalizers of the lowest go first", newJob(sized(900, 900), indexed), 700, "500 true 0-699"},
	} {
		var all []*corev1.Pod
		for i := range test.pods {
			all = append(all, newPod(fmt.Sprint("p", i), succeeded, atIndex(test.pods-1-i)))
		}
		a := account(look(test.job, all...))
		got := fmt.Sprintf("%d %t", len(a.removable), a.full)
		if isIndexed(test.job) {
			got += " " + test.job.Status.CompletedIndexes
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// While an admission webhook of pods was down, the status filled up, and no finalizer could be removed. Pins JOB-135.
func TestPodsThatTheStatusNamesAreReleasedWhileItIsFull(t *testing.T) {
	job := newJob(sized(9000, 9000))
	uncounted := &batchv1.UncountedTerminatedPods{}
	job.Status.UncountedTerminatedPods = uncounted
	var all []*corev1.Pod
	for i := range 900 {
		pod := newPod(fmt.Sprint("p", i), succeeded)
		if all = append(all, pod); i >= 400 {
			uncounted.Succeeded = append(uncounted.Succeeded, pod.UID)
		}
	}
	a := account(look(job, all...))
	if got := fmt.Sprintf("%d %d %t", len(a.removable), len(uncounted.Succeeded), a.full); got != "500 500 true" {
		t.Errorf("%s, want 500 500 true", got)
	}
	for _, pod := range a.removable {
		a.tracked.Delete(pod.UID)
	}
	a.moveToCounters()
	if s := job.Status; s.Succeeded != 500 || len(uncounted.Succeeded) != 0 {
		t.Errorf("the status is %+v", s)
	}
}

// Pins JOB-50.
func TestEndIsAnnouncedOnce(t *testing.T) {
	for _, test := range []struct {
		name string
		was  func(*batchv1.Job)
		end  batchv1.JobConditionType
		want string
	}{
		{"failure", func(*batchv1.Job) {}, batchv1.JobFailureTarget, "FailureTarget=True R"},
		{"failure that was false", withStatusCondition(batchv1.JobFailureTarget, "False", "X"), batchv1.JobFailureTarget, "FailureTarget=False X, FailureTarget=True R"},
		{"failure announced before", withStatusCondition(batchv1.JobFailureTarget, "True", "R"), batchv1.JobFailed, "FailureTarget=True R"},
		{"success", func(*batchv1.Job) {}, batchv1.JobSuccessCriteriaMet, "SuccessCriteriaMet=True R"},
		{"success announced before", withStatusCondition(batchv1.JobSuccessCriteriaMet, "True", "R"), batchv1.JobSuccessCriteriaMet, "SuccessCriteriaMet=True R"},
	} {
		r := look(newJob(test.was))
		r.end = newCondition(test.end, corev1.ConditionTrue, "R", "m", start)
		account(r)
		if got := conditionsOf(r.job); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestDeclareEnd(t *testing.T) {
	success := newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, "R", "m", start)
	for _, test := range []struct {
		name   string
		change func(*reconciliation, *accounting)
		want   string
	}{
		{"JOB-53: complete", func(r *reconciliation, _ *accounting) {}, "Complete R: m"},
		{"JOB-53: failed after it was announced just now", func(r *reconciliation, _ *accounting) { r.end = r.fail("R", "m") }, "Failed R: m"},
		{"JOB-53: failed after it was announced before", func(r *reconciliation, _ *accounting) {
			r.end = newCondition(batchv1.JobFailed, corev1.ConditionTrue, "R", "m", start)
		}, "Failed R: m"},
		{"goes on", func(r *reconciliation, _ *accounting) { r.end = nil }, ""},
		{"JOB-48d, JOB-53: too many pods for once", func(_ *reconciliation, a *accounting) { a.full = true }, ""},
		{"JOB-53: pods are terminating", func(r *reconciliation, _ *accounting) { r.terminating = 1 }, ""},
		{"JOB-53: pods are not accounted for", func(r *reconciliation, _ *accounting) {
			r.job.Status.UncountedTerminatedPods.Failed = []types.UID{"f"}
		}, ""},
	} {
		r := look(newJob(started))
		r.end = success
		a := newAccounting(r, false)
		test.change(r, a)
		if got := conditionText(a.declareEnd()); got != test.want || a.changed != (test.want != "") {
			t.Errorf("%s: %q, changed %t", test.name, got, a.changed)
		}
		if at := r.job.Status.CompletionTime; (at != nil) != strings.HasPrefix(test.want, "Complete ") {
			t.Errorf("%s: completed at %v", test.name, at)
		}
	}
}

// Pins JOB-127.
func TestCompletionIsNotBeforeTheStart(t *testing.T) {
	job := newJob(func(j *batchv1.Job) { j.Status.StartTime = &metav1.Time{Time: start.Add(3 * time.Second)} })
	r := look(job)
	r.end = newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, "R", "m", start)
	newAccounting(r, false).declareEnd()
	if !job.Status.CompletionTime.Equal(job.Status.StartTime) {
		t.Errorf("completed at %v", job.Status.CompletionTime)
	}
}

// Pins JOB-43.
func TestCountsAreReportedWhenTheyDiffer(t *testing.T) {
	r := look(newJob())
	if !r.reportCounts() || r.reportCounts() {
		t.Error("zero is not reported just once")
	}
	r.created.Add(2)
	if !r.reportCounts() || r.job.Status.Active != 2 {
		t.Errorf("active are %d", r.job.Status.Active)
	}
}
