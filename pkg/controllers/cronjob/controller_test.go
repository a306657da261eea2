package cronjob

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var key = types.NamespacedName{Namespace: "ns", Name: "cj"}

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

// fixture has a controller whose clock stands at 03:04:05.
func fixture(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *cronJobController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c, err := newController(env.Env, config{concurrentSyncs: 1})
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Fake.ClearActions()
	return env, c
}

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

func TestReconcile(t *testing.T) {
	hourly := func(change ...func(*batchv1.CronJob)) *batchv1.CronJob { return cronJob("0 * * * *", change...) }
	policy := func(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = p }
	}
	done := lastScheduled(at("03:00:00"))
	for name, tc := range map[string]struct {
		objects  []runtime.Object
		requests []string
		events   []string
		want     *status // nil: it is not written
	}{
		"CRON-16: the CronJob is gone": {},
		"CRON-27a, CRON-27e, CRON-27f: a time has come": {
			objects:  []runtime.Object{hourly()},
			requests: []string{"create jobs " + due0300, "update cronjobs/status"},
			events:   []string{"Normal SuccessfulCreate Created job " + due0300},
			want:     &status{active: "batch/v1 Job " + due0300, scheduled: "03:00:00"},
		},
		"CRON-24: no time has come": {objects: []runtime.Object{hourly(done)}},
		"CRON-22: suspended":        {objects: []runtime.Object{hourly(func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) })}},
		"CRON-20: being deleted": {objects: []runtime.Object{hourly(func(cj *batchv1.CronJob) {
			cj.DeletionTimestamp, cj.Finalizers = &metav1.Time{Time: at("03:00:00")}, []string{"a/b"}
		})}},
		"CRON-21: no such zone": {
			objects: []runtime.Object{hourly(func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("No/Where") })},
			events:  []string{`Warning UnknownTimeZone invalid timeZone: "No/Where": unknown time zone No/Where`},
		},
		"CRON-23: no schedule": {
			objects: []runtime.Object{cronJob("nonsense")},
			events:  []string{`Warning UnparseableSchedule unparseable schedule: "nonsense" : expected exactly 5 fields, found 1: [nonsense]`},
		},
		"CRON-24: a schedule that never comes": {
			objects: []runtime.Object{cronJob("0 0 31 2 *")},
			events:  []string{"Warning InvalidSchedule invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"},
		},
		"CRON-11: a zone in the schedule": {
			objects: []runtime.Object{cronJob("TZ=UTC 0 * * * *", done)},
			events:  []string{`Warning UnsupportedSchedule CRON_TZ or TZ used in schedule "TZ=UTC 0 * * * *" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details`},
		},
		"CRON-14: too many missed": {
			objects:  []runtime.Object{cronJob("* * * * *", lastScheduled(at("01:00:00")))},
			requests: []string{"create jobs cj-29455384", "update cronjobs/status"},
			events: []string{
				"Warning TooManyMissedTimes too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
				"Normal SuccessfulCreate Created job cj-29455384",
			},
		},
		"CRON-27, CRON-33: forbidden while another runs": {
			objects: []runtime.Object{hourly(policy(batchv1.ForbidConcurrent), listing("old")), child("old")},
			events:  []string{"Normal JobAlreadyActive Not starting job because prior execution is running and concurrency policy is Forbid"},
		},
		"CRON-27: replaces the one that runs": {
			objects:  []runtime.Object{hourly(policy(batchv1.ReplaceConcurrent), listing("old")), child("old")},
			requests: []string{"get jobs old", "delete jobs old", "create jobs " + due0300, "update cronjobs/status"},
			events:   []string{"Normal SuccessfulDelete Deleted job old", "Normal SuccessfulCreate Created job " + due0300},
			want:     &status{active: "batch/v1 Job " + due0300, scheduled: "03:00:00"},
		},
		"CRON-54: another job has the name of the one that ran": {
			objects:  []runtime.Object{hourly(policy(batchv1.ForbidConcurrent), listing("old")), namesake("old")},
			requests: []string{"get jobs old", "create jobs " + due0300, "update cronjobs/status"},
			events:   []string{"Normal MissingJob Active job went missing: old", "Normal SuccessfulCreate Created job " + due0300},
			want:     &status{active: "batch/v1 Job " + due0300, scheduled: "03:00:00"},
		},
		"CRON-27c, CRON-32: started by an earlier attempt": {
			objects:  []runtime.Object{hourly(), child(due0300, func(j *batchv1.Job) { ended(batchv1.JobComplete, at("03:00:00"), at("03:01:00"))(j) })},
			requests: []string{"create jobs " + due0300, "get jobs " + due0300, "update cronjobs/status"},
			want:     &status{active: "batch/v1 Job " + due0300, scheduled: "03:00:00", succeeded: "03:01:00"},
		},
		"CRON-27c: the name is taken": {
			objects:  []runtime.Object{hourly(), child(due0300, func(j *batchv1.Job) { j.OwnerReferences = nil })},
			requests: []string{"create jobs " + due0300, "get jobs " + due0300},
		},
		"CRON-55: the status was not written after a job was created": {
			objects:  []runtime.Object{hourly(), child(due0300, createdFor(at("03:00:00")))},
			requests: []string{"get cronjobs cj", "update cronjobs/status"},
			want:     &status{active: "batch/v1 Job " + due0300, scheduled: "03:00:00"},
		},
		"CRON-55: forbidden while a job runs that the status was to list": {
			objects: []runtime.Object{
				cronJob("*/2 * * * *", policy(batchv1.ForbidConcurrent), done), child(due0302, createdFor(at("03:02:00"))),
			},
			requests: []string{"get cronjobs cj", "update cronjobs/status"},
			events:   []string{"Normal JobAlreadyActive Not starting job because prior execution is running and concurrency policy is Forbid"},
			want:     &status{active: "batch/v1 Job " + due0302, scheduled: "03:02:00"},
		},
		"CRON-55: replaces a job that the status was to list": {
			objects: []runtime.Object{
				cronJob("*/2 * * * *", policy(batchv1.ReplaceConcurrent), done), child(due0302, createdFor(at("03:02:00"))),
			},
			requests: []string{"get cronjobs cj", "get jobs " + due0302, "delete jobs " + due0302, "create jobs " + due0304, "update cronjobs/status"},
			events:   []string{"Normal SuccessfulDelete Deleted job " + due0302, "Normal SuccessfulCreate Created job " + due0304},
			want:     &status{active: "batch/v1 Job " + due0304, scheduled: "03:04:00"},
		},
		"CRON-55: a job that was replaced is not listed again while it is cached": {
			objects:  []runtime.Object{hourly(done), child(due0300, createdFor(at("03:00:00")))},
			requests: []string{"get cronjobs cj"},
			events:   []string{"Warning UnexpectedJob Saw a job that the controller did not create or forgot: " + due0300},
		},
		"CRON-67: a job whose start was not recorded has failed, and is not kept": {
			objects: []runtime.Object{
				hourly(limits(0, 0)), child(due0300, createdFor(at("03:00:00")), ended(batchv1.JobFailed, at("03:00:00"), time.Time{})),
			},
			requests: []string{"get cronjobs cj", "update cronjobs/status"},
			want:     &status{scheduled: "03:00:00"},
		},
		"CRON-67: a job whose start was not recorded has completed, and the schedule is suspended": {
			objects: []runtime.Object{
				hourly(suspended), child(due0300, createdFor(at("03:00:00")), ended(batchv1.JobComplete, at("03:00:00"), at("03:01:00"))),
			},
			requests: []string{"get cronjobs cj", "update cronjobs/status"},
			want:     &status{scheduled: "03:00:00", succeeded: "03:01:00"},
		},
		"CRON-67: a job whose start was recorded has failed, and is not kept": {
			objects: []runtime.Object{
				hourly(done, limits(0, 0)), child(due0300, createdFor(at("03:00:00")), ended(batchv1.JobFailed, at("03:00:00"), time.Time{})),
			},
			requests: []string{"delete jobs " + due0300},
			events:   []string{"Normal SuccessfulDelete Deleted job " + due0300},
		},
		"CRON-35: the time before has the same minute, and its job runs": {
			objects: []runtime.Object{cronJob("@every 30s", lastScheduled(at("03:03:10")), listing(due0303)), child(due0303)},
		},
		"CRON-35: the time before has the same minute, and its job has finished": {
			objects: []runtime.Object{
				cronJob("@every 30s", lastScheduled(at("03:03:10"))), child(due0303, ended(batchv1.JobFailed, at("03:03:10"), time.Time{})),
			},
			requests: []string{"create jobs " + due0303, "get jobs " + due0303, "update cronjobs/status"},
			want:     &status{active: "batch/v1 Job " + due0303, scheduled: "03:03:40"},
		},
		"CRON-18b: a job has completed": {
			objects:  []runtime.Object{hourly(done, listing("a", "b")), child("a", ended(batchv1.JobComplete, at("03:00:00"), at("03:02:00"))), child("b")},
			requests: []string{"update cronjobs/status"},
			events:   []string{"Normal SawCompletedJob Saw completed job: a, condition: Complete"},
			want:     &status{active: "b", scheduled: "03:00:00", succeeded: "03:02:00"},
		},
		"CRON-18b: a job has failed": {
			objects:  []runtime.Object{hourly(done, listing("a")), child("a", ended(batchv1.JobFailed, at("03:00:00"), time.Time{}))},
			requests: []string{"update cronjobs/status"},
			events:   []string{"Normal SawCompletedJob Saw completed job: a, condition: Failed"},
			want:     &status{scheduled: "03:00:00"},
		},
		"CRON-18a: an unknown job runs": {
			objects:  []runtime.Object{hourly(done), child("stranger")},
			requests: []string{"get cronjobs cj"},
			events:   []string{"Warning UnexpectedJob Saw a job that the controller did not create or forgot: stranger"},
		},
		"CRON-19: a job is missing": {
			objects:  []runtime.Object{hourly(done, listing("lost"))},
			requests: []string{"get jobs lost", "update cronjobs/status"},
			events:   []string{"Normal MissingJob Active job went missing: lost"},
			want:     &status{scheduled: "03:00:00"},
		},
		"CRON-45: a namesake's job is no child": {
			objects: []runtime.Object{hourly(done, limits(0, 0)), child("x", ended(batchv1.JobComplete, at("03:00:00"), at("03:01:00")), func(j *batchv1.Job) { j.OwnerReferences[0].UID = "another" })},
		},
		"CRON-36: a job without the labels of the template is a child": {
			objects: []runtime.Object{hourly(done, listing("old")), child("old")},
		},
		"CRON-52: a success that is not kept is recorded before its job is deleted": {
			objects:  []runtime.Object{hourly(done, limits(0, 0), listing("s")), child("s", ended(batchv1.JobComplete, at("03:00:00"), at("03:01:00")))},
			requests: []string{"update cronjobs/status"},
			events:   []string{"Normal SawCompletedJob Saw completed job: s, condition: Complete"},
			want:     &status{scheduled: "03:00:00", succeeded: "03:01:00"},
		},
		"CRON-17, CRON-52: a success that is recorded": {
			objects: []runtime.Object{
				hourly(done, limits(0, 0), func(cj *batchv1.CronJob) {
					cj.Status.LastSuccessfulTime = &metav1.Time{Time: at("03:01:00")}
				}),
				child("s", ended(batchv1.JobComplete, at("03:00:00"), at("03:01:00"))),
			},
			requests: []string{"delete jobs s"},
			events:   []string{"Normal SuccessfulDelete Deleted job s"},
		},
		"CRON-34: the clock went back before the last time, without a deadline":  {objects: []runtime.Object{hourly(lastScheduled(at("04:00:00")))}},
		"CRON-34: the clock went back before the last time, within the deadline": {objects: []runtime.Object{hourly(lastScheduled(at("04:00:00")), startWithin(7200))}},
		"CRON-34: the job of the time runs": {
			objects: []runtime.Object{hourly(lastScheduled(at("02:00:00")), listing(due0300)), child(due0300)},
		},
		"CRON-40: jobs are listed in the order in which they were created": {
			objects: []runtime.Object{
				cronJob("* * * * *", lastScheduled(at("03:01:00")), listing("zero")),
				child(due0303, createdFor(at("03:03:00"))), child(due0302, createdFor(at("03:02:00"))), child("zero"),
			},
			requests: []string{"get cronjobs cj", "create jobs " + due0304, "update cronjobs/status"},
			events:   []string{"Normal SuccessfulCreate Created job " + due0304},
			want:     &status{active: "zero, batch/v1 Job " + due0302 + ", batch/v1 Job " + due0303 + ", batch/v1 Job " + due0304, scheduled: "03:04:00"},
		},
		"CRON-64: a job of the history that is being deleted": {
			objects: []runtime.Object{
				hourly(done, limits(0, 0)), child("f", ended(batchv1.JobFailed, at("02:00:00"), time.Time{}), leaving),
			},
		},
		"CRON-64: a job that is being deleted takes no place in the history": {
			objects: []runtime.Object{
				hourly(done, limits(0, 1)),
				child("f1", ended(batchv1.JobFailed, at("01:00:00"), time.Time{})),
				child("f2", ended(batchv1.JobFailed, at("02:00:00"), time.Time{}), leaving),
			},
		},
		"CRON-64: the job to be replaced is being deleted": {
			objects:  []runtime.Object{hourly(policy(batchv1.ReplaceConcurrent), listing("old")), child("old", leaving)},
			requests: []string{"get jobs old", "create jobs " + due0300, "update cronjobs/status"},
			events:   []string{"Normal SuccessfulCreate Created job " + due0300},
			want:     &status{active: "batch/v1 Job " + due0300, scheduled: "03:00:00"},
		},
		"CRON-17, CRON-40: history beyond the limits": {
			objects: []runtime.Object{
				hourly(done, limits(1, 0), listing("s1")),
				child("s1", ended(batchv1.JobComplete, at("01:00:00"), at("01:01:00"))),
				child("s2", ended(batchv1.JobComplete, at("02:00:00"), at("02:01:00"))),
				child("f1", ended(batchv1.JobFailed, at("02:00:00"), time.Time{})),
			},
			requests: []string{"delete jobs s1", "delete jobs f1", "update cronjobs/status"},
			events:   []string{"Normal SuccessfulDelete Deleted job s1", "Normal SuccessfulDelete Deleted job f1"},
			want:     &status{scheduled: "03:00:00", succeeded: "02:01:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.objects...)
			if err := c.owners.Reconcile(env.Context(), key); err != nil {
				t.Fatal(err)
			}
			env.WantRequests(t, tc.requests...)
			if got := env.RecordedEvents(); !slices.Equal(got, tc.events) {
				t.Errorf("events:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.events, "\n"))
			}
			if tc.want == nil {
				return
			}
			if got := statusOf(controllertest.MustStored[*batchv1.CronJob](t, env, "ns", "cj")); got != *tc.want {
				t.Errorf("status is %+v, want %+v", got, *tc.want)
			}
		})
	}
}

// The object that has the name may be gone by then, which is no event of the CronJob. Pins CRON-53.
func TestACronJobWhoseJobHasANamesakeIsReconciledAtTheNextTime(t *testing.T) {
	env, c := fixture(t, cronJob("0 * * * *"), child(due0300, func(j *batchv1.Job) { j.OwnerReferences = nil }))
	queue := &controllertest.Queue[types.NamespacedName]{}
	c.owners.Queue = queue
	if err := c.owners.Reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	next := at("04:00:00").Sub(env.Clock.Now())
	if got := queue.TakeDelay(key); got < next || got > next+time.Second {
		t.Errorf("it is reconciled in %v, want %v", got, next)
	}
}

// TestASuccessIsRecordedAlthoughItsJobIsNotKept also if the write and the deletion failed first: the reconcile that
// follows deletes the Job. Pins CRON-52.
func TestASuccessIsRecordedAlthoughItsJobIsNotKept(t *testing.T) {
	env, c := fixture(t,
		cronJob("0 * * * *", lastScheduled(at("03:00:00")), limits(0, 0), listing("s"), suspended),
		child("s", ended(batchv1.JobComplete, at("03:00:00"), at("03:01:00"))))
	for verb, resource := range map[string]string{"update": "cronjobs", "delete": "jobs"} {
		var failed atomic.Bool
		env.Fake.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return !failed.Swap(true), nil, errors.New("down")
		})
	}
	env.Run(t, c)
	env.EventuallyAsTimePasses(t, "the Job is gone, and its success is recorded", time.Second, func() bool {
		cj, err := env.Client.BatchV1().CronJobs("ns").Get(t.Context(), "cj", metav1.GetOptions{})
		_, gone := env.Client.BatchV1().Jobs("ns").Get(t.Context(), "s", metav1.GetOptions{})
		return err == nil && cj.Status.LastSuccessfulTime != nil && apierrors.IsNotFound(gone)
	})
}

// The creation of the Job of 03:00 had no answer, and the cache, which shows nothing of it, is behind or not when the
// next time has come. Pins CRON-68.
func TestTheJobOfAnAttemptWithoutAnswerIsLookedFor(t *testing.T) {
	const look = "get jobs " + due0300
	made := createdFor(at("03:00:00"))
	began := []string{"create jobs " + due0304, "update cronjobs/status"}
	for name, tc := range map[string]struct {
		policy   batchv1.ConcurrencyPolicy
		live     *batchv1.Job
		schedule string
		later    time.Duration // after the attempt
		requests []string
		waits    bool
		active   []string
	}{
		"it runs, which forbids another": {
			batchv1.ForbidConcurrent, child(due0300, made), "*/4 * * * *", 0, []string{look, "update cronjobs/status"}, false, []string{due0300},
		},
		"it runs, and is replaced": {
			batchv1.ReplaceConcurrent, child(due0300, made), "*/4 * * * *", 0,
			slices.Concat([]string{look, look, "delete jobs " + due0300}, began), false, []string{due0304},
		},
		"it runs, beside another": {
			batchv1.AllowConcurrent, child(due0300, made), "*/4 * * * *", 0, slices.Concat([]string{look}, began), false, []string{due0300, due0304},
		},
		"it has finished": {
			batchv1.ForbidConcurrent, child(due0300, made, ended(batchv1.JobFailed, at("03:00:00"), time.Time{})), "*/4 * * * *", 0,
			slices.Concat([]string{look}, began), false, []string{due0304},
		},
		"somebody else has its name": {
			batchv1.ForbidConcurrent, namesake(due0300), "*/4 * * * *", 0, slices.Concat([]string{look}, began), false, []string{due0304},
		},
		"it may still be created": {
			batchv1.ForbidConcurrent, nil, "*/4 * * * *", 0, []string{look}, true, nil,
		},
		"it was not created": {
			batchv1.ForbidConcurrent, nil, "*/4 * * * *", reconcile.RecheckAfter, slices.Concat([]string{look}, began), false, []string{due0304},
		},
		"its own time is still the last one": {
			batchv1.ForbidConcurrent, nil, "0 * * * *", 0, []string{"create jobs " + due0300, "update cronjobs/status"}, false, []string{due0300},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cj := cronJob(tc.schedule, lastScheduled(at("02:00:00")), func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = tc.policy })
			objects := []runtime.Object{cj}
			if tc.live != nil {
				objects = append(objects, tc.live)
			}
			env, c := fixture(t, objects...)
			if tc.live != nil {
				env.Uncache(t, tc.live)
			}
			c.owners.Writes.CreateUncertain(cj, due0300)
			env.Clock.Step(tc.later)
			if err := c.owners.Reconcile(env.Context(), key); errors.Is(err, writes.ErrUncertain) != tc.waits || err != nil && !tc.waits {
				t.Fatalf("it failed: %v", err)
			}
			env.WantRequests(t, tc.requests...)
			var active []string
			for _, ref := range must.Get(env.Client.BatchV1().CronJobs("ns").Get(t.Context(), "cj", metav1.GetOptions{}))(t).Status.Active {
				active = append(active, ref.Name)
			}
			if !slices.Equal(active, tc.active) {
				t.Errorf("active: %q, want %q", active, tc.active)
			}
			if left := c.owners.Writes.Attempted(cj); (left != "") != tc.waits {
				t.Errorf("%q is still looked for", left)
			}
		})
	}
}

// Only what may have been executed is looked for. Pins CRON-68.
func TestWhichCreationsAreUncertain(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"no answer": {apierrors.NewTimeoutError("lost", 1), due0300},
		"refused":   {apierrors.NewForbidden(batchv1.Resource("jobs"), due0300, errors.New("exceeded quota")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			cj := cronJob("0 * * * *")
			env, c := fixture(t, cj)
			env.Refuse("create jobs", tc.err)
			if err := c.owners.Reconcile(env.Context(), key); err == nil {
				t.Fatal("it succeeded")
			}
			if got := c.owners.Writes.Attempted(cj); got != tc.want {
				t.Errorf("looked for: %q, want %q", got, tc.want)
			}
		})
	}
}

// As after a write whose answer was lost, while the cache is behind it. Pins CRON-66.
func TestASuccessThatTheCacheDoesNotShowIsWaitedFor(t *testing.T) {
	env, c := fixture(t,
		cronJob("0 * * * *", lastScheduled(at("03:00:00")), limits(0, 0), suspended),
		child("s", ended(batchv1.JobComplete, at("03:00:00"), at("03:01:00"))),
		child("manual"))
	env.Fake.PrependReactor("get", "cronjobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		recorded := func(cj *batchv1.CronJob) { cj.Status.LastSuccessfulTime = &metav1.Time{Time: at("03:01:00")} }
		return true, cronJob("0 * * * *", lastScheduled(at("03:00:00")), limits(0, 0), suspended, recorded), nil
	})
	queue := &controllertest.Queue[types.NamespacedName]{}
	c.owners.Queue = queue
	if err := c.owners.Reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "get cronjobs cj")
	if got := queue.TakeDelay(key); got != reconcile.RecheckAfter {
		t.Errorf("it is reconciled in %v", got)
	}
}

func suspended(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) }

// A Job that is created and deleted while the watch of Jobs is broken causes no event.
// Pins CRON-19 and CRON-51.
func TestAJobThatTheCacheNeverShowsIsMissedInTheEnd(t *testing.T) {
	env, c := fixture(t, cronJob("0 * * * *", lastScheduled(at("03:00:00")), listing("new"), suspended))
	var deleted atomic.Bool
	env.Fake.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !deleted.Swap(true), child("new"), nil
	})
	env.Run(t, c)
	env.EventuallyAsTimePasses(t, "the Job is not listed any more", time.Second, func() bool {
		cj, err := env.Client.BatchV1().CronJobs("ns").Get(t.Context(), "cj", metav1.GetOptions{})
		return err == nil && len(cj.Status.Active) == 0
	})
	if got := env.Requests(); !slices.Contains(got, "get jobs new") || !deleted.Load() {
		t.Errorf("the requests are %q", got)
	}
}

func TestTheCacheIsBehindIfItLacksAJobOfTheCronJob(t *testing.T) {
	for name, tc := range map[string]struct {
		live   *batchv1.Job
		again  bool
		active int
	}{
		"CRON-51: the Job exists":                               {child("new"), true, 1},
		"CRON-54: another Job has its name":                     {namesake("new"), false, 0},
		"CRON-51: the Job was taken from the CronJob":           {child("new", func(j *batchv1.Job) { j.OwnerReferences = nil }), false, 1},
		"CRON-51: the Job belongs to a namesake of the CronJob": {child("new", func(j *batchv1.Job) { j.OwnerReferences[0].UID = "another" }), false, 1},
		"CRON-61: the Job has finished":                         {child("new", ended(batchv1.JobFailed, at("03:00:00"), time.Time{})), false, 0},
		"CRON-61: the Job was taken from the CronJob, and has finished": {
			child("new", ended(batchv1.JobComplete, at("03:00:00"), at("03:01:00")), func(j *batchv1.Job) { j.OwnerReferences = nil }), false, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t)
			env.Fake.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, tc.live, nil })
			r := &reconciliation{cronJobController: c, cj: cronJob("0 * * * *", listing("new"))}
			if err := r.trackActive(t.Context()); err != nil || (r.again != nil) != tc.again || len(r.cj.Status.Active) != tc.active {
				t.Errorf("%v, again: %v, active: %v", err, r.again, r.cj.Status.Active)
			}
			if r.dirty != (tc.active == 0) {
				t.Errorf("to be written: %v", r.dirty)
			}
		})
	}
}

// Pins CRON-18a and CRON-46.
func TestTheStoredListOfActiveJobsCounts(t *testing.T) {
	env, c := fixture(t, cronJob("0 * * * *", lastScheduled(at("03:00:00"))), child("new"))
	env.Fake.PrependReactor("get", "cronjobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, cronJob("0 * * * *", lastScheduled(at("03:00:00")), listing("new")), nil
	})
	if err := c.owners.Reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	if events := env.RecordedEvents(); len(events) != 0 {
		t.Errorf("events: %v", events)
	}
}

// The Job that was created may be cached before the status that lists it: what the write of the
// status returned counts, and nothing is read. Pins CRON-42.
func TestTheListThatWasWrittenCountsBeforeItIsCached(t *testing.T) {
	version := func(v string) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.ResourceVersion = v }
	}
	cached := cronJob("0 * * * *", lastScheduled(at("03:00:00")), version("1"))
	env, c := fixture(t, cached, child("new"))
	c.owners.WroteOwner(cached, cronJob("0 * * * *", lastScheduled(at("03:00:00")), listing("new"), version(env.NextVersion())))
	if err := c.owners.Reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t)
	if events := env.RecordedEvents(); len(events) > 0 {
		t.Errorf("events: %q", events)
	}
}

// TestAReconcileOverJobsLosesNothing pins rule 3: what one reconcile found out about some Jobs is still
// there when another one made it take the stored CronJob instead of the cached one.
// Pins CRON-46.
func TestAReconcileOverJobsLosesNothing(t *testing.T) {
	done := lastScheduled(at("03:00:00"))
	completed := child("completed", ended(batchv1.JobComplete, at("02:00:00"), at("02:01:00")))
	for name, tc := range map[string]struct {
		cached, stored *batchv1.CronJob
		children       []*batchv1.Job
		active         []string
		events         []string
	}{
		"a success": {
			cached: cronJob("0 * * * *", done), stored: cronJob("0 * * * *", done, listing("new")),
			children: []*batchv1.Job{completed, child("new")}, active: []string{"new"},
		},
		"an end": {
			cached: cronJob("0 * * * *", done, listing("completed")), stored: cronJob("0 * * * *", done, listing("completed", "new")),
			children: []*batchv1.Job{completed, child("new")}, active: []string{"new"},
			events: []string{"Normal SawCompletedJob Saw completed job: completed, condition: Complete"},
		},
		"CRON-55: a job that was replaced is not listed again": {
			cached: cronJob("0 * * * *", lastScheduled(at("02:00:00"))), stored: cronJob("0 * * * *", done),
			children: []*batchv1.Job{completed, child(due0300, createdFor(at("03:00:00")))},
			events:   []string{"Warning UnexpectedJob Saw a job that the controller did not create or forgot: " + due0300},
		},
		"a stranger": {
			cached: cronJob("0 * * * *", done), stored: cronJob("0 * * * *", done, listing("new")),
			children: []*batchv1.Job{child("stranger"), completed, child("new")}, active: []string{"new"},
			events: []string{"Warning UnexpectedJob Saw a job that the controller did not create or forgot: stranger"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.stored)
			r := &reconciliation{cronJobController: c, cj: tc.cached, children: tc.children, now: at("03:04:05")}
			if err := r.trackChildren(env.Context()); err != nil {
				t.Fatal(err)
			}
			var active []string
			for _, ref := range r.cj.Status.Active {
				active = append(active, ref.Name)
			}
			if !slices.Equal(active, tc.active) || !r.dirty {
				t.Errorf("active: %v, to be written: %v", active, r.dirty)
			}
			if last := r.cj.Status.LastSuccessfulTime; last == nil || !last.Time.Equal(at("02:01:00")) {
				t.Errorf("last success: %v", last)
			}
			if got := env.RecordedEvents(); !slices.Equal(got, tc.events) {
				t.Errorf("events: %q", got)
			}
			env.WantRequests(t, "get cronjobs cj")
		})
	}
}

// Pins CRON-48.
func TestNothingIsDoneForACronJobThatWasReplaced(t *testing.T) {
	env, c := fixture(t, cronJob("0 * * * *"), child("new"))
	env.Fake.PrependReactor("get", "cronjobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, cronJob("0 * * * *", func(cj *batchv1.CronJob) { cj.UID = "another" }), nil
	})
	if err := c.owners.Reconcile(env.Context(), key); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	env.WantRequests(t, "get cronjobs cj")
}

func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	ofAProxy := apierrors.NewGenericServerResponse(
		http.StatusNotFound, "delete", batchv1.Resource("jobs"), "f", "404 page not found", 0, true)
	running := []runtime.Object{cronJob("0 * * * *", listing("old"), func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent }), child("old")}
	for name, tc := range map[string]struct {
		objects        []runtime.Object
		verb, resource string
		refusal        error
		fails, requeue bool
		events         []string
	}{
		"CRON-27d: create": {[]runtime.Object{cronJob("0 * * * *")}, "create", "jobs", boom, true, false, []string{"Warning FailedCreate Error creating job: boom"}},
		"CRON-27b: create in a terminating namespace": {[]runtime.Object{cronJob("0 * * * *")}, "create", "jobs", &apierrors.StatusError{ErrStatus: metav1.Status{
			Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
		}}, true, true, nil},
		"CRON-27: replace: read":   {running, "get", "jobs", boom, true, false, []string{"Warning FailedGet Get job: boom"}},
		"CRON-27: replace: delete": {running, "delete", "jobs", boom, true, false, []string{"Warning FailedDelete Deleted job: boom"}},
		"CRON-27: replace: gone": {running, "delete", "jobs", apierrors.NewNotFound(batchv1.Resource("jobs"), "old"), true, false,
			[]string{`Warning FailedDelete Deleted job: jobs.batch "old" not found`}},
		"CRON-28: status": {[]runtime.Object{cronJob("0 * * * *")}, "update", "cronjobs", boom, true, false, []string{"Normal SuccessfulCreate Created job " + due0300}},
		"status conflict": {[]runtime.Object{cronJob("0 * * * *")}, "update", "cronjobs", apierrors.NewConflict(batchv1.Resource("cronjobs"), "cj", boom), true, true, []string{"Normal SuccessfulCreate Created job " + due0300}},
		"CRON-17: history: delete": {[]runtime.Object{cronJob("0 * * * *", lastScheduled(at("03:00:00")), limits(0, 0)), child("f", ended(batchv1.JobFailed, at("02:00:00"), time.Time{}))},
			"delete", "jobs", boom, false, false, []string{"Warning FailedDelete Deleted job: boom"}},
		"WL-117: history: the answer of a proxy": {[]runtime.Object{cronJob("0 * * * *", lastScheduled(at("03:00:00")), limits(0, 0)), child("f", ended(batchv1.JobFailed, at("02:00:00"), time.Time{}))},
			"delete", "jobs", ofAProxy, false, false, []string{"Warning FailedDelete Deleted job: " + ofAProxy.Error()}},
		"CRON-59: history: gone": {[]runtime.Object{cronJob("0 * * * *", lastScheduled(at("03:00:00")), limits(0, 0), listing("f")), child("f", ended(batchv1.JobFailed, at("02:00:00"), time.Time{}))},
			"delete", "jobs", apierrors.NewNotFound(batchv1.Resource("jobs"), "f"), false, false, nil},
		"CRON-19: missing job: read":  {[]runtime.Object{cronJob("0 * * * *", lastScheduled(at("03:00:00")), listing("lost"))}, "get", "jobs", boom, true, false, nil},
		"CRON-18a: unknown job: read": {[]runtime.Object{cronJob("0 * * * *", lastScheduled(at("03:00:00"))), child("new")}, "get", "cronjobs", boom, true, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.objects...)
			env.Fake.PrependReactor(tc.verb, tc.resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.refusal })
			err := c.owners.Reconcile(env.Context(), key)
			if (err != nil) != tc.fails || reconcile.IsExpected(err) != tc.requeue {
				t.Errorf("got %v", err)
			}
			if got := env.RecordedEvents(); !slices.Equal(got, tc.events) {
				t.Errorf("events: %q", got)
			}
		})
	}
}

// Pins CRON-58.
func TestACutOffRequestReportsNothing(t *testing.T) {
	running := []runtime.Object{cronJob("0 * * * *", listing("old"), func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent }), child("old")}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		request string
	}{
		"create":          {[]runtime.Object{cronJob("0 * * * *")}, "create jobs"},
		"replace: read":   {running, "get jobs"},
		"replace: delete": {running, "delete jobs"},
		"history: delete": {[]runtime.Object{cronJob("0 * * * *", lastScheduled(at("03:00:00")), limits(0, 0)), child("f", ended(batchv1.JobFailed, at("02:00:00"), time.Time{}))}, "delete jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.objects...)
			ctx, cancel := context.WithCancel(env.Context())
			env.Intercept(tc.request, func(clienttesting.Action) error {
				cancel()
				return context.Canceled
			})
			if err := c.owners.Reconcile(ctx, key); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if ctx.Err() == nil {
				t.Error("nothing was cut off")
			}
			env.WantEvents(t)
		})
	}
}

func TestAReplacedJobThatCannotBeDeletedKeepsItsPlace(t *testing.T) {
	env, c := fixture(t, cronJob("0 * * * *", listing("old"), func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent }), child("old"))
	env.Fake.PrependReactor("delete", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("boom") })
	if err := c.owners.Reconcile(env.Context(), key); err == nil || !strings.HasPrefix(err.Error(), "could not replace job ns/old") {
		t.Errorf("got %v", err)
	}
	for _, request := range env.Requests() {
		if strings.HasPrefix(request, "create") || strings.HasPrefix(request, "update") {
			t.Errorf("went on to %s", request)
		}
	}
}

func TestOnlyTheJobThatIsListedIsReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		live      *batchv1.Job
		requests  []string
		events    []string
		succeeded bool
	}{
		"CRON-56: a listed Job that has finished is kept": {
			live:      child("old", ended(batchv1.JobComplete, at("02:00:00"), at("03:00:00"))),
			requests:  []string{"get jobs old", "create jobs " + due0300, "update cronjobs/status"},
			events:    []string{"Normal SawCompletedJob Saw completed job: old, condition: Complete", "Normal SuccessfulCreate Created job " + due0300},
			succeeded: true,
		},
		"CRON-47: the listed Job is deleted by UID": {
			live:     child("old"),
			requests: []string{"get jobs old", "delete jobs old", "create jobs " + due0300, "update cronjobs/status"},
			events:   []string{"Normal SuccessfulDelete Deleted job old", "Normal SuccessfulCreate Created job " + due0300},
		},
		"CRON-47: a namesake of a listed Job is not replaced": {
			live:     namesake("old"),
			requests: []string{"get jobs old", "create jobs " + due0300, "update cronjobs/status"},
			events:   []string{"Normal MissingJob Active job went missing: old", "Normal SuccessfulCreate Created job " + due0300},
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The cache shows the Job that is listed, whatever has its name by now.
			env, c := fixture(t, cronJob("0 * * * *", listing("old"), func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent }), child("old"))
			env.Fake.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, tc.live, nil })
			env.Fake.PrependReactor("delete", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if p := action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions; p == nil || ptr.Deref(p.UID, "") != "old" {
					t.Errorf("deleted on condition of %v", p)
				}
				return false, nil, nil
			})
			if err := c.owners.Reconcile(env.Context(), key); err != nil {
				t.Fatal(err)
			}
			env.WantRequests(t, tc.requests...)
			if got := env.RecordedEvents(); !slices.Equal(got, tc.events) {
				t.Errorf("events: %q", got)
			}
			cj := controllertest.MustStored[*batchv1.CronJob](t, env, "ns", "cj")
			if len(cj.Status.Active) != 1 || cj.Status.Active[0].Name != due0300 {
				t.Errorf("active: %v", cj.Status.Active)
			}
			if (cj.Status.LastSuccessfulTime != nil) != tc.succeeded {
				t.Errorf("last success: %v", cj.Status.LastSuccessfulTime)
			}
		})
	}
}

func TestWhichJobUpdatesMatter(t *testing.T) {
	cj := cronJob("0 * * * *", lastScheduled(at("03:00:00")))
	other := func(j *batchv1.Job) { j.OwnerReferences = nil }
	for name, tc := range map[string]struct {
		old, new *batchv1.Job
		want     int
	}{
		"CRON-49: a Job makes progress":               {child("a"), child("a", func(j *batchv1.Job) { j.Status.Active = 3 }), 0},
		"CRON-5: a Job ends":                          {child("a"), child("a", ended(batchv1.JobFailed, at("03:00:00"), time.Time{})), 1},
		"CRON-5: a Job is no longer controlled":       {child("a"), child("a", other), 1},
		"CRON-5: a Job becomes controlled":            {child("a", other), child("a"), 1},
		"CRON-5, CRON-49: another Job has the name":   {child("a"), child("a", func(j *batchv1.Job) { j.UID = "another" }), 1},
		"CRON-5: a Job that no CronJob controls ends": {child("a", other), child("a", other, ended(batchv1.JobFailed, at("03:00:00"), time.Time{})), 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := unwatched(t, cj)
			tc.new.ResourceVersion = "2"
			c.jobsOfOwners().Updated(reconcile.Fresh, tc.old, tc.new)
			if depth := c.owners.Loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued", depth)
			}
		})
	}
}

// Pins CRON-4.
func TestAJobThatAppearsOrGoesEnqueuesItsCronJob(t *testing.T) {
	c := unwatched(t, cronJob("0 * * * *"))
	queue, informer := &controllertest.Queue[types.NamespacedName]{Namespace: "ns"}, &controllertest.Captured{}
	c.owners.Queue = queue
	c.watch(c.Informers.Batch().V1().CronJobs().Informer(), informer)
	for what, event := range map[string]func(job *batchv1.Job){
		"added": func(job *batchv1.Job) { informer.Handler.OnAdd(job, false) },
		"added while it is being deleted": func(job *batchv1.Job) {
			job.DeletionTimestamp = &metav1.Time{Time: at("03:00:00")}
			informer.Handler.OnAdd(job, false)
		},
		"deleted": func(job *batchv1.Job) { informer.Handler.OnDelete(job) },
		"deleted unseen": func(job *batchv1.Job) {
			informer.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/a", Obj: job})
		},
	} {
		event(child("a"))
		if got := queue.Take(); !slices.Equal(got, []string{"cj"}) {
			t.Errorf("a Job that is %s: queued %q", what, got)
		}
		event(child("a", func(j *batchv1.Job) { j.OwnerReferences[0].UID = "another" }))
		event(child("a", func(j *batchv1.Job) { j.OwnerReferences[0].Kind = "Other" }))
		if got := queue.Take(); len(got) > 0 {
			t.Errorf("a Job of somebody else that is %s: queued %q", what, got)
		}
	}
}

// Pins CRON-6.
func TestACronJobThatAppearsOrGoesIsReconciledAtOnce(t *testing.T) {
	c := unwatched(t)
	queue, informer := &controllertest.Queue[types.NamespacedName]{Namespace: "ns"}, &controllertest.Captured{}
	c.owners.Queue = queue
	c.watch(informer, c.Informers.Batch().V1().Jobs().Informer())
	informer.Handler.OnAdd(cronJob("0 * * * *"), false)
	queue.Want(t, "cj")
	informer.Handler.OnDelete(cronJob("0 * * * *"))
	queue.Want(t, "cj")
	informer.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/cj", Obj: cronJob("0 * * * *")})
	queue.Want(t, "cj")
}

// Pins CRON-30.
func TestTheSkewOfACreationIsMeasured(t *testing.T) {
	env, c := fixture(t, cronJob("0 * * * *"))
	env.Fake.PrependReactor("create", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		action.(clienttesting.CreateAction).GetObject().(*batchv1.Job).CreationTimestamp = metav1.Time{Time: at("03:00:05")}
		return false, nil, nil
	})
	if err := c.owners.Reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	const name = "cronjob_controller_job_creation_skew_duration_seconds"
	want := "# HELP " + name + " [STABLE] Time between when a cronjob is scheduled to be run, and when the corresponding job is created\n" +
		"# TYPE " + name + " histogram\n"
	for bound := 1; bound <= 512; bound *= 2 {
		count := 0
		if bound >= 5 {
			count = 1
		}
		want += fmt.Sprintf("%s_bucket{le=\"%d\"} %d\n", name, bound, count)
	}
	want += name + "_bucket{le=\"+Inf\"} 1\n" + name + "_sum 5\n" + name + "_count 1\n"
	if err := testutil.GatherAndCompare(env.Metrics, strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
}

// unwatched is a controller that only hears of what the test tells it.
func unwatched(t *testing.T, known ...*batchv1.CronJob) *cronJobController {
	t.Helper()
	env := controllertest.New(t)
	c, err := newController(env.Env, config{concurrentSyncs: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, cj := range known {
		if err := env.Informers.Batch().V1().CronJobs().Informer().GetStore().Add(cj); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Pins CRON-7.
func TestAChangedScheduleIsWaitedFor(t *testing.T) {
	env, c := fixture(t)
	c.cronJobUpdated(reconcile.Fresh, cronJob("0 * * * *"), cronJob("0 5 * * *", lastScheduled(at("03:00:00"))))
	if depth := c.owners.Loop.Inspect().Depth; depth != 0 {
		t.Error("queued at once")
	}
	c.cronJobUpdated(reconcile.Fresh, cronJob("0 * * * *"), cronJob("nonsense"))
	if got := env.RecordedEvents(); !slices.Equal(got, []string{"Warning UnParseableCronJobSchedule unparseable schedule for cronjob: nonsense"}) || c.owners.Loop.Inspect().Depth != 0 {
		t.Errorf("an unparseable schedule: %q", got)
	}
	c.cronJobUpdated(reconcile.Fresh, cronJob("0 * * * *"), cronJob("0 * * * *", listing("a")))
	if depth := c.owners.Loop.Inspect().Depth; depth != 1 {
		t.Error("another change was not queued")
	}
}

// A time that has come before a CronJob was first seen is run late, not lost.
// Pins CRON-63.
func TestACronJobThatReplacesAnotherIsReconciledAtOnce(t *testing.T) {
	_, c := fixture(t)
	recreated := func(cj *batchv1.CronJob) { cj.UID = "another" }
	c.cronJobUpdated(reconcile.Fresh, cronJob("0 * * * *"), cronJob("0 3 * * *", recreated))
	if depth := c.owners.Loop.Inspect().Depth; depth != 1 {
		t.Error("it waits for its next time")
	}
}

// Pins CRON-2.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if got := d.Value(cfg); got != (config{concurrentSyncs: 5}) {
		t.Errorf("by default: %+v", got)
	}
	*cfg.Controllers.CronJob.ConcurrentSyncs = 9
	c, err := d.New(controllertest.New(t).Env, d.Value(cfg))
	if err != nil {
		t.Fatal(err)
	}
	if s := c.(*cronJobController).owners.Loop.Inspect(); s.Workers != 9 || s.Queue != "cronjob" {
		t.Errorf("loop: %+v", s)
	}
}

func BenchmarkReconcile(b *testing.B) {
	for _, others := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			objects := []runtime.Object{cronJob("0 * * * *", lastScheduled(at("03:00:00")), listing("a")), child("a")}
			for n := range others {
				objects = append(objects, child(fmt.Sprint("other-", n), func(j *batchv1.Job) { j.OwnerReferences[0].UID = "another" }))
			}
			env, c := fixture(b, objects...)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.owners.Reconcile(env.Context(), key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
