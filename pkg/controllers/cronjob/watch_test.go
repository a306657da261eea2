package cronjob

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

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
