package cronjob

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var key = types.NamespacedName{Namespace: "ns", Name: "cj"}

// fixture has a controller whose clock stands at 03:04:05.
func fixture(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *cronJobController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c := must.Get(newController(env.Env, config{concurrentSyncs: 1}))(t)
	env.Start(t)
	env.Fake.ClearActions()
	return env, c
}

type jobOption func(*batchv1.Job)

// child is a running Job of the CronJob.
func child(name string, options ...jobOption) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cronJob(""), kind)},
	}}
	for _, o := range options {
		o(job)
	}
	return job
}

func ended(how batchv1.JobConditionType, started, completed time.Time) jobOption {
	return func(job *batchv1.Job) {
		job.Status.StartTime = &metav1.Time{Time: started}
		if how == batchv1.JobComplete {
			job.Status.CompletionTime = &metav1.Time{Time: completed}
		}
		job.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue}}
	}
}

// createdFor marks a Job as created for a scheduled time.
func createdFor(scheduled time.Time) jobOption {
	return func(job *batchv1.Job) {
		job.Annotations = map[string]string{batchv1.CronJobScheduledTimestampAnnotation: scheduled.Format(time.RFC3339)}
	}
}

// leaving marks a Job as being deleted, with its pods left to run.
func leaving(job *batchv1.Job) {
	job.DeletionTimestamp, job.Finalizers = &metav1.Time{Time: at("03:01:00")}, []string{metav1.FinalizerOrphanDependents}
}

// namesake is a Job of somebody else that has the name of a Job of the CronJob.
func namesake(name string) *batchv1.Job {
	return child(name, func(job *batchv1.Job) { job.UID, job.OwnerReferences = "another", nil })
}

func listing(names ...string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		for _, n := range names {
			cj.Status.Active = append(cj.Status.Active, corev1.ObjectReference{Namespace: "ns", Name: n, UID: types.UID(n)})
		}
	}
}

func limits(succeeded, failed int32) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = &succeeded, &failed
	}
}

func suspended(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) }

// status is the status of a CronJob, with its times on the day of the test. active are the listed Jobs.
type status struct{ active, scheduled, succeeded string }

func statusOf(cj *batchv1.CronJob) status {
	var active []string
	for _, ref := range cj.Status.Active {
		active = append(active, strings.TrimSpace(ref.APIVersion+" "+ref.Kind+" "+ref.Name))
	}
	clock := func(t *metav1.Time) string {
		if t == nil {
			return ""
		}
		return strings.TrimPrefix(t.UTC().Format("2006-01-02 15:04:05.999999999"), "2026-01-02 ")
	}
	return status{strings.Join(active, ", "), clock(cj.Status.LastScheduleTime), clock(cj.Status.LastSuccessfulTime)}
}

// The Jobs of 03:00 and later.
const due0300, due0302, due0303, due0304 = "cj-29455380", "cj-29455382", "cj-29455383", "cj-29455384"

// unwatched is a controller that only hears of what the test tells it.
func unwatched(t *testing.T, known ...*batchv1.CronJob) *cronJobController {
	t.Helper()
	env := controllertest.New(t)
	c := must.Get(newController(env.Env, config{concurrentSyncs: 1}))(t)
	for _, cj := range known {
		if err := env.Informers.Batch().V1().CronJobs().Informer().GetStore().Add(cj); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
