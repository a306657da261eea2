package cronjob

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

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
