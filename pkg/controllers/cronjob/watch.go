package cronjob

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *cronJobController) watch(cronJobs, jobs cache.SharedIndexInformer) {
	watch.Objects(cronJobs, watch.Funcs[*batchv1.CronJob]{
		Add:    c.owners.Enqueue,
		Update: c.cronJobUpdated,
		Delete: c.owners.Deleted,
		Missed: c.owners.Missed,
	})
	ofOwners := c.jobsOfOwners()
	watch.Objects(jobs, watch.Funcs[*batchv1.Job]{
		Only:   func(job *batchv1.Job) bool { return c.owners.MayOwn(job) },
		Add:    ofOwners.Added,
		Update: ofOwners.Updated,
		Delete: func(job *batchv1.Job) {
			c.rememberStart(job)
			ofOwners.Deleted(job)
		},
	})
}

// rememberStart keeps the time of a Job that is gone from being run again, if it is yet to be recorded. The creation of
// the Job may have had no answer so far.
func (c *cronJobController) rememberStart(job *batchv1.Job) {
	if cj, ok := c.owners.Of(job); ok && isUnrecorded(cj, job) {
		c.starts.add(cj, scheduledTime(cj, job))
	}
}

// cronJobUpdated enqueues a CronJob: for its next scheduled time if the schedule changed, and
// immediately otherwise. After a restart of the watch, it may be another one of the name, of which a time may have come.
func (c *cronJobController) cronJobUpdated(lane reconcile.Lane, old, cj *batchv1.CronJob) {
	same := old.Spec.Schedule == cj.Spec.Schedule && ptr.Equal(old.Spec.TimeZone, cj.Spec.TimeZone)
	if same || old.UID != cj.UID {
		c.owners.Enqueue(lane, cj)
		return
	}
	schedule, err := c.schedules.parse(effective(&cj.Spec))
	if err != nil {
		c.Record(unparseableUpdate(cj))
		return
	}
	c.owners.EnqueueAfter(cj, untilNext(cj, schedule, c.Clock.Now()))
}

// jobsOfOwners declares which events of Jobs enqueue which CronJobs. The progress of a running
// Job is irrelevant here.
func (c *cronJobController) jobsOfOwners() owners.Dependents[*batchv1.CronJob, *batchv1.Job] {
	return owners.Dependents[*batchv1.CronJob, *batchv1.Job]{Owners: c.owners, Matters: endsOrMoves}
}

// endsOrMoves reports whether a Job has finished or its controller has changed. After a restart
// of the watch, it may be another one of the name.
func endsOrMoves(old, job *batchv1.Job) bool {
	return old.UID != job.UID ||
		!owners.SameController(old, job) ||
		howEnded(old) != howEnded(job) ||
		!ptr.Equal(old.Status.CompletionTime, job.Status.CompletionTime)
}
