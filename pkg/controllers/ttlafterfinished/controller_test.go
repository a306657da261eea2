package ttlafterfinished

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// start is when controllertest's clocks start.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var key = types.NamespacedName{Namespace: "ns", Name: "job"}

// job is finished at a time, with a time to live in seconds.
func job(finished time.Time, ttl int32, change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "uid", ResourceVersion: "7"},
		Spec:       batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To(ttl)},
		Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(finished)},
		}},
	}
	for _, c := range change {
		c(j)
	}
	return j
}

func condition(kind batchv1.JobConditionType, status corev1.ConditionStatus, at time.Time) batchv1.JobCondition {
	return batchv1.JobCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(at)}
}

// Pins TTLF-3 and TTLF-7.
func TestIsCandidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*batchv1.Job)
		want   bool
	}{
		"complete":                  {func(*batchv1.Job) {}, true},
		"failed":                    {func(j *batchv1.Job) { j.Status.Conditions[1].Type = batchv1.JobFailed }, true},
		"ttl of zero":               {func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = ptr.To(int32(0)) }, true},
		"TTLF-1: managed by others": {func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/x") }, true},
		"no ttl":                    {func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = nil }, false},
		"TTLF-15: being deleted":    {func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: start} }, false},
		"unfinished":                {func(j *batchv1.Job) { j.Status.Conditions = j.Status.Conditions[:1] }, false},
		"not yet true":              {func(j *batchv1.Job) { j.Status.Conditions[1].Status = corev1.ConditionFalse }, false},
		"about to fail":             {func(j *batchv1.Job) { j.Status.Conditions[1].Type = batchv1.JobFailureTarget }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isCandidate(job(start, 60, tc.change)); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestExpiryOf(t *testing.T) {
	for name, tc := range map[string]struct {
		job  *batchv1.Job
		want time.Time
		err  string
	}{
		"TTLF-7: after the ttl": {job: job(start, 60), want: start.Add(time.Minute)},
		"TTLF-7: the first of several": {
			job: job(start, 60, func(j *batchv1.Job) {
				j.Status.Conditions = []batchv1.JobCondition{
					condition(batchv1.JobFailed, corev1.ConditionFalse, start.Add(-time.Hour)),
					condition(batchv1.JobFailed, corev1.ConditionTrue, start.Add(time.Second)),
					condition(batchv1.JobComplete, corev1.ConditionTrue, start.Add(time.Hour)),
				}
			}),
			want: start.Add(61 * time.Second),
		},
		"a ttl beyond 32 bits of nanoseconds": {job: job(start, 2_000_000_000), want: start.Add(2_000_000_000 * time.Second)},
		"TTLF-7: no time":                     {job: job(time.Time{}, 60), err: "unable to find the time when the Job ns/job finished"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := expiryOf(tc.job)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || !got.Equal(tc.want) {
				t.Errorf("got %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func fixture(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *ttlController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c := must.Get(newController(env.Env, config{workers: 1}))(t)
	env.Start(t)
	env.Fake.ClearActions()
	return env, c
}

// Pins TTLF-4, TTLF-9, TTLF-10 and TTLF-19.
func TestAnExpiredJobIsDeletedWithOneRequest(t *testing.T) {
	env, c := fixture(t, job(start.Add(-90*time.Second), 60))
	if err := c.reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	env.WantEvents(t)
	actions := env.Fake.Actions()
	if len(actions) != 1 || !actions[0].Matches("delete", "jobs") {
		t.Fatalf("requests: %v", actions)
	}
	options := actions[0].(clienttesting.DeleteActionImpl).DeleteOptions
	if *options.PropagationPolicy != metav1.DeletePropagationForeground || *options.Preconditions.UID != "uid" || *options.Preconditions.ResourceVersion != "7" {
		t.Errorf("options: %+v", options)
	}
	want := `
# HELP ttl_after_finished_controller_job_deletion_duration_seconds [ALPHA] The time it took to delete the job since it became eligible for deletion
# TYPE ttl_after_finished_controller_job_deletion_duration_seconds histogram
`
	for n, bound := 0, 0.1; n < 14; n, bound = n+1, bound*2 {
		count := 0
		if bound >= 30 {
			count = 1
		}
		want += fmt.Sprintf("ttl_after_finished_controller_job_deletion_duration_seconds_bucket{le=%q} %d\n", fmt.Sprint(bound), count)
	}
	want += `ttl_after_finished_controller_job_deletion_duration_seconds_bucket{le="+Inf"} 1
ttl_after_finished_controller_job_deletion_duration_seconds_sum 30
ttl_after_finished_controller_job_deletion_duration_seconds_count 1
`
	if err := testutil.GatherAndCompare(env.Metrics, strings.NewReader(want), "ttl_after_finished_controller_job_deletion_duration_seconds"); err != nil {
		t.Error(err)
	}
}

// Pins TTLF-11.
func TestAJobWithoutTimeToLiveIsDeletedAtOnce(t *testing.T) {
	env, c := fixture(t, job(start, 0))
	if err := c.reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "delete jobs job")
}

// The key of a Job that is gone is still waiting for the end of its time. Pins TTLF-16.
func TestAJobThatWasRecreatedLivesForItsOwnTime(t *testing.T) {
	env, c := fixture(t, job(start, 60))
	env.Run(t, c)
	env.AwaitIdle(t)
	recreated := func(j *batchv1.Job) { j.UID = "another" }
	env.Remove(t, job(start, 60))
	env.Store(t, job(start, 90, recreated))
	controllertest.Eventually(t, "the new Job is cached", func() bool {
		cached, err := c.jobs.Jobs(key.Namespace).Get(key.Name)
		return err == nil && cached.UID == "another"
	})
	env.Fake.ClearActions()
	env.EventuallyAsTimePasses(t, "the new Job is deleted", time.Second, func() bool {
		_, exists := controllertest.Stored[*batchv1.Job](t, env, key.Namespace, key.Name)
		if lived := env.Clock.Since(start); !exists && lived < 90*time.Second {
			t.Fatalf("the new Job was deleted after %v", lived)
		}
		return !exists
	})
}

// Whoever creates Jobs may delete them long before their time, as a CronJob does that keeps the last three of them.
// Pins TTLF-22.
func TestNothingWaitsLongForAJobThatIsGone(t *testing.T) {
	const ttl = 30 * 24 * 60 * 60
	env, c := fixture(t, job(start, ttl))
	env.Run(t, c)
	env.AwaitIdle(t)
	env.Remove(t, job(start, ttl))
	controllertest.Eventually(t, "the Job is gone", func() bool {
		_, err := c.jobs.Jobs(key.Namespace).Get(key.Name)
		return apierrors.IsNotFound(err)
	})
	env.EventuallyAsTimePasses(t, "nothing waits for it", 10*time.Minute, func() bool {
		if passed := env.Clock.Since(start); passed > 2*time.Hour {
			t.Fatalf("after %v: %+v", passed, c.loop.Keys(func(string) bool { return true }))
		}
		return len(c.loop.Keys(func(string) bool { return true })) == 0
	})
}

// Its key returns in between. Pins TTLF-7 and TTLF-22.
func TestAJobLivesForAllOfALongTime(t *testing.T) {
	const ttl = 5 * time.Hour
	env, c := fixture(t, job(start, int32(ttl.Seconds())))
	env.Run(t, c)
	env.AwaitIdle(t)
	env.EventuallyAsTimePasses(t, "the Job is deleted", 10*time.Minute, func() bool {
		_, exists := controllertest.Stored[*batchv1.Job](t, env, key.Namespace, key.Name)
		if lived := env.Clock.Since(start); !exists && lived < ttl {
			t.Fatalf("the Job was deleted after %v", lived)
		}
		return !exists
	})
	env.WantRequests(t, "delete jobs job")
}

// The time of the end is that of another clock, which may be ahead: the time to live counts from there. Pins TTLF-14.
func TestAJobThatFinishesInTheFuture(t *testing.T) {
	env, c := fixture(t, job(start.Add(20*time.Second), 60))
	env.Run(t, c)
	env.EventuallyAsTimePasses(t, "the Job is deleted", 10*time.Second, func() bool {
		_, exists := controllertest.Stored[*batchv1.Job](t, env, key.Namespace, key.Name)
		if passed := env.Clock.Since(start); !exists && passed < 80*time.Second {
			t.Fatalf("the Job was deleted after %v", passed)
		}
		return !exists
	})
}

// An instance that begins sets the timers again, without a request. Pins TTLF-17.
func TestTimersAreSetAgain(t *testing.T) {
	named := func(name string) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Name = name } }
	env, c := fixture(t, job(start.Add(-50*time.Second), 60, named("later")), job(start.Add(-70*time.Second), 60, named("expired")),
		job(start, 60, named("unfinished"), func(j *batchv1.Job) { j.Status.Conditions = nil }))
	if s := c.loop.Inspect(); s.Depth != 2 || s.Backlog != 2 {
		t.Errorf("%d keys are queued, %d of them in the backlog, want those of the finished Jobs", s.Depth, s.Backlog)
	}
	env.Run(t, c)
	env.AwaitIdle(t)
	env.WantRequests(t, "delete jobs expired")
	held := c.loop.Keys(func(string) bool { return true })
	if len(held) != 1 || held[0].Key != "ns/later" || !held[0].Until.Equal(start.Add(10*time.Second)) {
		t.Errorf("held: %+v", held)
	}
}

func TestWhatIsNotDue(t *testing.T) {
	for name, objects := range map[string][]runtime.Object{
		"TTLF-6: gone":                 nil,
		"TTLF-7: no longer finished":   {job(start, 60, func(j *batchv1.Job) { j.Status.Conditions = nil })},
		"TTLF-7, TTLF-13: ttl removed": {job(start, 60, func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = nil })},
		"TTLF-7: not expired":          {job(start, 60)},
		"TTLF-7: finished later":       {job(start.Add(time.Hour), 0)},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, objects...)
			if err := c.reconcile(env.Context(), key); err != nil {
				t.Fatal(err)
			}
			if requests := env.Fake.Actions(); len(requests) != 0 {
				t.Errorf("requests: %v", requests)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	resource := batchv1.Resource("jobs")
	for name, tc := range map[string]struct {
		refusal        error
		retry, failure bool
	}{
		"TTLF-20: already gone":                           {apierrors.NewNotFound(resource, "job"), false, false},
		"TTLF-19: changed or replaced at the last moment": {apierrors.NewConflict(resource, "job", errors.New("precondition failed")), true, false},
		"anything else":                                   {errors.New("boom"), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, job(start.Add(-time.Hour), 1))
			env.Fake.PrependReactor("delete", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.refusal })
			err := c.reconcile(env.Context(), key)
			if (err != nil) != tc.retry || (err != nil && reconcile.IsExpected(err) == tc.failure) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The API server may say so because of an admission webhook: the cache shows whether a Job is gone. Pins TTLF-21.
func TestADeletionDoesNotProveThatAJobIsGone(t *testing.T) {
	for name, isGone := range map[string]bool{"it is there": false, "it is gone": true} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, job(start.Add(-time.Hour), 1))
			env.RefuseIf("delete jobs job", apierrors.NewNotFound(batchv1.Resource("jobs"), "job"), func(n int) bool {
				if n == 1 && isGone {
					env.Remove(t, job(start, 1))
				}
				return n == 1
			})
			env.Run(t, c)
			controllertest.Eventually(t, "the deletion is refused", func() bool {
				_, err := c.jobs.Jobs(key.Namespace).Get(key.Name)
				return c.loop.Inspect().Reconciled == 1 && apierrors.IsNotFound(err) == isGone
			})
			env.Requests()
			env.EventuallyAsTimePasses(t, "the Job is looked at again", time.Second, func() bool { return c.loop.Inspect().Reconciled == 2 })
			if took := env.Clock.Since(start); took < reconcile.RecheckAfter {
				t.Errorf("it is looked at again after %v", took)
			}
			var want []string
			if !isGone {
				want = []string{"delete jobs job"}
			}
			env.WantRequests(t, want...)
		})
	}
}

// Pins TTLF-7.
func TestAJobWithoutATimeIsRetried(t *testing.T) {
	env, c := fixture(t, job(time.Time{}, 1))
	if err := c.reconcile(env.Context(), key); err == nil || reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
}

// Pins TTLF-3.
func TestOnlyCandidatesAreQueued(t *testing.T) {
	unfinished := job(start, 60, func(j *batchv1.Job) { j.Name, j.Status.Conditions = "unfinished", nil })
	_, c := fixture(t, job(start, 60), unfinished)
	if depth := c.loop.Inspect().Depth; depth != 1 {
		t.Errorf("%d keys are queued, want that of the candidate", depth)
	}
	c.enqueue(reconcile.Fresh, unfinished)
	c.enqueue(reconcile.Fresh, job(start, 60))
	if depth := c.loop.Inspect().Depth; depth != 1 {
		t.Errorf("%d keys are queued, want that of the candidate", depth)
	}
}

// Pins TTLF-2 and TTLF-5.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	before := d.Value(cfg)
	if before != any(config{workers: 5}) {
		t.Errorf("the default is %+v", before)
	}
	*cfg.Controllers.Job.ConcurrentSyncs = 99
	if d.Value(cfg) != before {
		t.Error("a setting of others restarts the controller")
	}
	*cfg.Controllers.TTLAfterFinished.ConcurrentSyncs = 9
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*ttlController).loop.Inspect(); s.Workers != 9 || s.Queue != "ttl_jobs_to_delete" {
		t.Errorf("loop: %+v", s)
	}
}

func BenchmarkReconcile(b *testing.B) {
	for _, jobs := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			objects := make([]runtime.Object, 0, jobs)
			for n := range jobs {
				objects = append(objects, job(start, 3600, func(j *batchv1.Job) { j.Name = fmt.Sprint("job-", n) }))
			}
			env, c := fixture(b, objects...)
			first := types.NamespacedName{Namespace: "ns", Name: "job-0"}
			b.ReportAllocs()
			for b.Loop() {
				if err := c.reconcile(env.Context(), first); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
