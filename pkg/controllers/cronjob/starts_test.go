package cronjob

import (
	"errors"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// TestATimeIsNotRunAgainWhenItsJobIsGone has the status refused that records the Job of 03:00. That is deleted before the
// next attempt, because its time to live is over for instance. Pins CRON-71.
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
			if tc.change == nil && len(c.starts.of) > 0 {
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
