package cronjob

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

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
		"CRON-70: it may still be created, late": {
			batchv1.ForbidConcurrent, nil, "*/4 * * * *", requests.LateWithin - 1, []string{look}, true, nil,
		},
		"CRON-70: it may still be created, beside another": {
			batchv1.AllowConcurrent, nil, "*/4 * * * *", 0, slices.Concat([]string{look}, began), false, []string{due0304},
		},
		"it was not created": {
			batchv1.ForbidConcurrent, nil, "*/4 * * * *", requests.LateWithin, slices.Concat([]string{look}, began), false, []string{due0304},
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
			c.owners.Writes.CreateUncertain(cj, due0300, env.Clock.Now())
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
