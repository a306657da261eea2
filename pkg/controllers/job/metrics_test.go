package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

// Pins JOB-10, JOB-14, JOB-83, JOB-111 and JOB-114.
func TestEventMetrics(t *testing.T) {
	f := newFixture(t, defaults)
	f.c.podAdded(backlog, newPod("a", succeeded))
	f.c.podAdded(fresh, newPod("b"))
	f.c.podAdded(fresh, newPod("c", failed, untracked))
	f.c.podUpdated(fresh, newPod("b"), newPod("b", failed, newVersion))
	f.c.podUpdated(fresh, newPod("b", failed), newPod("b", failed, untracked, newVersion))
	f.c.podDeleted(newPod("a", succeeded))
	f.c.podDeleted(newPod("b", failed, untracked))
	if got := f.metric(t, "job_controller_terminated_pods_tracking_finalizer_total"); got != "event=add 2, event=delete 2" {
		t.Errorf("counted %q", got)
	}
	pods := &controllertest.Captured{}
	f.c.watch(&controllertest.Captured{}, pods)
	pods.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/d", Obj: newPod("d", succeeded)})
	if got := f.metric(t, "job_controller_terminated_pods_tracking_finalizer_total"); got != "event=add 2, event=delete 3" {
		t.Errorf("after a tombstone, counted %q", got)
	}
	f.c.jobAdded(backlog, newJob(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") }))
	f.c.jobAdded(fresh, newJob(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To(batchv1.JobControllerName) }))
	if got := f.metric(t, "job_controller_jobs_by_external_controller_total"); got != "controller_name=example.com/other 1" {
		t.Errorf("counted %q", got)
	}
}

// Users who may create Jobs name other controllers, any number of them, and a series lasts as long as the instance.
// Pins JOB-144.
func TestOtherControllersHaveALimitedNumberOfSeries(t *testing.T) {
	f := newFixture(t, defaults)
	managed := func(by string) *batchv1.Job { return newJob(func(j *batchv1.Job) { j.Spec.ManagedBy = &by }) }
	for n := range 1000 {
		f.c.jobAdded(fresh, managed(fmt.Sprintf("example.com/%d", n)))
	}
	f.c.jobAdded(fresh, managed("example.com/0"))
	series := strings.Split(f.metric(t, "job_controller_jobs_by_external_controller_total"), ", ")
	if len(series) != 101 {
		t.Errorf("1000 names have %d series", len(series))
	}
	for _, want := range []string{"controller_name=example.com/0 2", "controller_name=example.com/99 1", "controller_name=other 900"} {
		if !slices.Contains(series, want) {
			t.Errorf("there is no %q", want)
		}
	}
}

// Pins JOB-83b and JOB-95.
func TestFinishedMetrics(t *testing.T) {
	f := newFixture(t, defaults)
	before := batchv1.JobStatus{Succeeded: 2, Failed: 1, CompletedIndexes: "0,1,8", FailedIndexes: ptr.To("")}
	after := func(job *batchv1.Job) *batchv1.Job {
		job.Status = batchv1.JobStatus{Succeeded: 4, Failed: 2, CompletedIndexes: "0,1,3", FailedIndexes: ptr.To("2")}
		return job
	}
	f.c.metrics.podsFinished(after(newJob()), &before)
	f.c.metrics.podsFinished(after(newJob(perIndex(1), sized(5, 5))), &before)
	f.c.metrics.podsFinished(newJob(indexed, sized(5, 5)), &before)
	for name, want := range map[string]string{
		"job_controller_job_pods_finished_total": "completion_mode=Indexed result=failed 1, completion_mode=Indexed result=succeeded 1, " +
			"completion_mode=NonIndexed result=failed 1, completion_mode=NonIndexed result=succeeded 2",
		"job_controller_job_finished_indexes_total": "backoffLimit=global status=succeeded 0, backoffLimit=perIndex status=failed 1, backoffLimit=perIndex status=succeeded 1",
	} {
		if got := f.metric(t, name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	f.c.metrics.podCreated("new", nil)
	f.c.metrics.podCreated("new", errBoom)
	if got := f.metric(t, "job_controller_job_pods_creation_total"); got != "reason=new status=failed 1, reason=new status=succeeded 2" {
		t.Errorf("counted %q", got)
	}
	f.c.metrics.failuresHandled(map[batchv1.PodFailurePolicyAction]int{"Ignore": 3})
	if got := f.metric(t, "job_controller_pod_failures_handled_by_failure_policy_total"); got != "action=Ignore 3" {
		t.Errorf("counted %q", got)
	}
}
