// Package cronjob creates a Job for each scheduled time of a CronJob, keeps track of the
// Jobs that run, and removes old ones.
//
// The model, in rules:
//
//  1. A CronJob is reconciled when it or one of its Jobs changes in a relevant way, and at its
//     next scheduled time. Its Jobs are those that it controls.
//  2. Finished Jobs beyond the history limits are deleted first, so that a full quota
//     cannot keep new ones from being created.
//  3. The status lists the Jobs that run. Jobs that have finished or no longer exist are
//     removed from it. The object that the last write returned counts until the cache shows it.
//     If a running Job is missing even so, the CronJob is read live, before anything is recorded
//     in the status. If that does not list it either, but the Job was created for a scheduled
//     time later than the last one recorded, the write of the status was lost, and is made up
//     for, also if the Job has finished meanwhile.
//  4. When a scheduled time is due and the deadline, the concurrency policy and the suspension
//     allow it, its Job is created. Of several missed times only the most recent one is run.
//     The name of the Job is derived from the time, so a second attempt finds the Job of the
//     first. If the first had no answer, and another time is due before the second, its Job is
//     looked for: it may run, and the concurrency policy has to take it into account.
//     What was started is remembered until the status shows it: a time is not run again if its Job is deleted
//     before, and a Job that runs counts although neither the cache nor the status shows it.
//  5. The status is written at most once per reconcile, at the end.
//
// Behaviour: docs/specs/cronjob-controller.md.
package cronjob

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// Descriptor describes cronjob-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "cronjob-controller",
		Aliases:        []string{"cronjob"},
		ServiceAccount: "cronjob-controller",
		EventSource:    "cronjob-controller",
		Requires: []schema.GroupVersionResource{
			batchv1.SchemeGroupVersion.WithResource("cronjobs"),
			batchv1.SchemeGroupVersion.WithResource("jobs"),
		},
	}, configOf, newController)
}

// config is what the controller reads of the configuration.
type config struct{ concurrentSyncs int }

func configOf(c *controller.Config) config {
	return config{concurrentSyncs: int(*c.Controllers.CronJob.ConcurrentSyncs)}
}

type cronJobController struct {
	controller.Env
	owners    *owners.Owners[*batchv1.CronJob]
	jobs      index.Jobs
	schedules *schedules
	starts    *starts
	metrics   controllerMetrics
}

func newController(env controller.Env, cfg config) (*cronJobController, error) {
	cronJobs, jobs := env.Informers.Batch().V1().CronJobs().Informer(), env.Informers.Batch().V1().Jobs().Informer()
	c := &cronJobController{
		Env:       env,
		jobs:      index.NewJobs(jobs),
		schedules: newSchedules(),
		starts:    newStarts(),
		metrics:   newMetrics(env.Metrics),
	}
	c.owners = owners.New(env, owners.Options[*batchv1.CronJob]{
		Kind:          kind,
		Resource:      batchv1.Resource("cronjobs"),
		Informer:      cronJobs,
		FromLastWrite: true, // a Job may be cached before the status that lists it
		OnGone:        c.starts.forget,
		Loop:          reconcile.Options[types.NamespacedName]{Queue: "cronjob", Workers: cfg.concurrentSyncs},
	}, c.reconcile)
	c.watch(cronJobs, jobs)
	return c, nil
}

// handover is what an instance hands over: its last writes, and the starts that are yet to be recorded.
type handover struct {
	writes writes.State
	starts map[types.NamespacedName]startsOf
}

// HandOver implements controller.HandsOver.
func (c *cronJobController) HandOver() handover {
	return handover{writes: c.owners.Writes.HandOver(), starts: c.starts.copy()}
}

// takeOver adds the state of the predecessor. There is no event for a CronJob that was deleted in between: a reconcile
// drops its state, late, because a cache that was just filled may be older than the CronJob.
func (c *cronJobController) takeOver(left handover) {
	c.owners.Writes.TakeOver(left.writes)
	c.starts.takeOver(left.starts)
	for cronJob := range left.starts {
		c.owners.Queue.AddAfter(cronJob, writes.Timeout)
	}
}

// Run implements controller.Controller.
func (c *cronJobController) Run(ctx context.Context) error {
	if left, ok := controller.TakeOver(c.Env, c); ok {
		c.takeOver(left)
	}
	return c.owners.Loop.Run(ctx)
}
