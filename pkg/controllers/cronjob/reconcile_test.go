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
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

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
