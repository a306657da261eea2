package cronjob

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// TestATimeIsNotRunAgainWhenItsJobIsGone has the status refused that records the Job of 03:00. That is deleted before
// the next attempt, because its time to live is over for instance. Pins CRON-71.
func TestATimeIsNotRunAgainWhenItsJobIsGone(t *testing.T) {
	const look = "get jobs " + due0300
	other := func(cj *batchv1.CronJob) { cj.UID = "another" }
	for name, tc := range map[string]struct {
		live     *batchv1.Job // of that name, which the cache does not show
		change   func(*batchv1.CronJob)
		restarts bool
		requests []string
		listed   bool // as active
	}{
		"CRON-71: it is gone":                           {requests: []string{look, "update cronjobs/status"}},
		"CRON-71: it is gone, and the instance as well": {restarts: true, requests: []string{look, "update cronjobs/status"}},
		"CRON-71: it runs": {
			live: child(due0300), requests: []string{look, "update cronjobs/status"}, listed: true,
		},
		"CRON-71: somebody else has its name": {live: namesake(due0300), requests: []string{look, "update cronjobs/status"}},
		"CRON-71: it was that of another CronJob of the name": {
			change: other, requests: []string{"create jobs " + due0300, "update cronjobs/status"}, listed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, cronJob("0 * * * *"))
			c := must.Get(newController(env.Env, config{concurrentSyncs: 1}))(t)
			env.Cache(t, cronJob("0 * * * *"))
			allow := env.Refuse("update cronjobs/status", errors.New("the webhook is down"))
			if err := c.owners.Reconcile(env.Context(), key); err == nil {
				t.Fatal("the status was written")
			}
			env.WantRequests(t, "create jobs "+due0300, "update cronjobs/status")
			env.Remove(t, child(due0300))
			if tc.live != nil {
				env.Store(t, tc.live)
			}
			if tc.change != nil {
				env.Store(t, cronJob("0 * * * *", tc.change))
				env.Cache(t, cronJob("0 * * * *", tc.change))
			}
			if tc.restarts {
				left := c.HandOver()
				env.Succeed(left)
				c = must.Get(newController(env.Env, config{concurrentSyncs: 1}))(t)
				c.takeOver(left)
			}
			allow()
			env.Fake.ClearActions()
			if err := c.owners.Reconcile(env.Context(), key); err != nil {
				t.Fatal(err)
			}
			env.WantRequests(t, tc.requests...)
			stored := must.Get(env.Client.BatchV1().CronJobs("ns").Get(t.Context(), "cj", metav1.GetOptions{}))(t)
			want := status{scheduled: "03:00:00"}
			if tc.listed {
				want.active = "batch/v1 Job " + due0300
			}
			if got := statusOf(stored); got != want {
				t.Errorf("the status is %+v, want %+v", got, want)
			}
			c.starts.recorded(stored)
			if len(c.starts.of) > 0 {
				t.Errorf("remembered: %v", c.starts.of)
			}
		})
	}
}

// TestWhatIsRememberedOfStarts until a status shows it. Pins CRON-71.
func TestWhatIsRememberedOfStarts(t *testing.T) {
	s := newStarts()
	cj := cronJob("0 * * * *")
	s.add(cj, at("03:00:00"))
	s.add(cj, at("04:00:00"))
	for _, step := range []struct {
		name        string
		do          func()
		three, four bool
	}{
		{"both are started", func() { s.add(cj, at("03:00:00")) }, true, true},
		{"no time is recorded", func() { s.recorded(cj) }, true, true},
		{"an earlier time is recorded", func() { s.recorded(cronJob("0 * * * *", lastScheduled(at("02:00:00")))) }, true, true},
		{"the first is recorded", func() { s.recorded(cronJob("0 * * * *", lastScheduled(at("03:00:00")))) }, false, true},
		{"the CronJob is gone", func() { s.forget(key) }, false, false},
	} {
		step.do()
		if three, four := s.has(cj, at("03:00:00")), s.has(cj, at("04:00:00")); three != step.three || four != step.four {
			t.Errorf("%s: %v, %v", step.name, three, four)
		}
	}
}

// TestWhatWasStartedIsLookedFor has the time of a Job remembered, which the cache does not show, when the next one
// comes. Pins CRON-72.
func TestWhatWasStartedIsLookedFor(t *testing.T) {
	const due0320 = "cj-29455400"
	finished := ended(batchv1.JobFailed, at("03:00:00"), time.Time{})
	create := []string{"create jobs " + due0304, "update cronjobs/status"}
	for name, tc := range map[string]struct {
		policy   batchv1.ConcurrencyPolicy
		started  string // the times
		live     *batchv1.Job
		requests []string
		want     status
	}{
		"CRON-72: it runs, which forbids another": {
			batchv1.ForbidConcurrent, "03:00:00", child(due0300), []string{"get jobs " + due0300, "update cronjobs/status"},
			status{active: "batch/v1 Job " + due0300, scheduled: "03:00:00"},
		},
		"CRON-72: it runs, beside another": {
			batchv1.AllowConcurrent, "03:00:00", child(due0300), slices.Concat([]string{"get jobs " + due0300}, create),
			status{active: "batch/v1 Job " + due0300 + ", batch/v1 Job " + due0304, scheduled: "03:04:00"},
		},
		"CRON-72: it has finished": {
			batchv1.ForbidConcurrent, "03:00:00", child(due0300, finished), slices.Concat([]string{"get jobs " + due0300}, create),
			status{active: "batch/v1 Job " + due0304, scheduled: "03:04:00"},
		},
		"CRON-72: it is gone": {
			batchv1.ForbidConcurrent, "03:00:00", nil, slices.Concat([]string{"get jobs " + due0300}, create),
			status{active: "batch/v1 Job " + due0304, scheduled: "03:04:00"},
		},
		"CRON-72: one is gone, and another runs": {
			batchv1.ForbidConcurrent, "02:56:00 03:00:00", child(due0300),
			[]string{"get jobs cj-29455376", "get jobs " + due0300, "update cronjobs/status"},
			status{active: "batch/v1 Job " + due0300, scheduled: "03:00:00"},
		},
		"CRON-72: it runs, of a time that has not come": {
			batchv1.ForbidConcurrent, "03:20:00", child(due0320), []string{"get jobs " + due0320, "update cronjobs/status"},
			status{active: "batch/v1 Job " + due0320},
		},
		"CRON-72: it is gone, of a time that has not come": {
			batchv1.ForbidConcurrent, "03:20:00", nil, slices.Concat([]string{"get jobs " + due0320}, create),
			status{active: "batch/v1 Job " + due0304, scheduled: "03:04:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cj := cronJob("*/4 * * * *", func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = tc.policy })
			env := controllertest.New(t, cj)
			c := must.Get(newController(env.Env, config{concurrentSyncs: 1}))(t)
			env.Cache(t, cj)
			if tc.live != nil {
				env.Store(t, tc.live)
			}
			for started := range strings.FieldsSeq(tc.started) {
				c.starts.add(cj, at(started))
			}
			if err := c.owners.Reconcile(env.Context(), key); err != nil {
				t.Fatal(err)
			}
			env.WantRequests(t, tc.requests...)
			stored := must.Get(env.Client.BatchV1().CronJobs("ns").Get(t.Context(), "cj", metav1.GetOptions{}))(t)
			if got := statusOf(stored); got != tc.want {
				t.Errorf("the status is %+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestAJobThatIsDeletedBeforeItsCreationHadAnAnswer has run. Pins CRON-71.
func TestAJobThatIsDeletedBeforeItsCreationHadAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		job  *batchv1.Job
		want bool
	}{
		"CRON-71: it is of a time that is not recorded": {child(due0304, createdFor(at("03:04:00"))), true},
		"CRON-71: it is of a time that is recorded":     {child(due0300, createdFor(at("03:00:00"))), false},
		"CRON-71: it is of no time":                     {child("by-hand"), false},
		"CRON-71: it is somebody else's":                {namesake(due0304), false},
	} {
		t.Run(name, func(t *testing.T) {
			cj := cronJob("*/4 * * * *", lastScheduled(at("03:00:00")))
			c := unwatched(t, cj)
			c.rememberStart(tc.job)
			if got := c.starts.has(cj, at("03:04:00")); got != tc.want || len(c.starts.all(cj)) > 1 || !tc.want && len(c.starts.all(cj)) > 0 {
				t.Errorf("it is remembered: %v, %v", got, c.starts.all(cj))
			}
			must.Succeed(t, c.Informers.Batch().V1().CronJobs().Informer().GetStore().Delete(cj))
			c.owners.Deleted(cj)
			must.Succeed(t, c.owners.Reconcile(t.Context(), key))
			if len(c.starts.of) > 0 {
				t.Error("it is remembered of a CronJob that was deleted")
			}
		})
	}
}

// TestStartsAreAddedToThoseOfEvents, which may come before the state of the predecessor. That of a CronJob which was
// deleted in between is dropped later. Pins CRON-71.
func TestStartsAreAddedToThoseOfEvents(t *testing.T) {
	cj, again := cronJob("0 * * * *"), cronJob("0 * * * *", func(cj *batchv1.CronJob) { cj.UID = "again" })
	left := handover{starts: map[types.NamespacedName]startsOf{key: {uid: cj.UID, times: []time.Time{at("03:00:00")}}}}
	for name, tc := range map[string]struct {
		of   *batchv1.CronJob // the event is about
		want []time.Time
	}{
		"no event":                     {nil, []time.Time{at("03:00:00")}},
		"of the CronJob":               {cj, []time.Time{at("03:00:00"), at("04:00:00")}},
		"of another one with its name": {again, nil},
	} {
		c, queue := unwatched(t), &controllertest.Queue[types.NamespacedName]{}
		c.owners.Queue = queue
		if tc.of != nil {
			c.starts.add(tc.of, at("04:00:00"))
		}
		c.takeOver(left)
		if got := c.starts.all(cj); !slices.Equal(got, tc.want) {
			t.Errorf("%s: remembered are %v", name, got)
		}
		queue.Want(t, "ns/cj in 5m0s")
		must.Succeed(t, c.owners.Reconcile(t.Context(), key))
		if len(c.starts.of) > 0 {
			t.Errorf("%s: remembered of a CronJob that is gone: %v", name, c.starts.of)
		}
	}
}
