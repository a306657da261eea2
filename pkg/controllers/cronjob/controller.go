// Package cronjob creates a Job for each scheduled time of a CronJob, keeps track of the
// Jobs that run, and removes old ones.
//
// The model, in rules:
//
//  1. A CronJob is looked at when it or one of its Jobs changes in a way that matters,
//     and when its next scheduled time comes. Its Jobs are those that it controls.
//  2. Finished Jobs beyond the history limits are deleted first, so that a full quota
//     cannot keep new ones from being created.
//  3. The status lists the Jobs that run. Finished ones are taken off the list, as are
//     those that are gone; ones that the cache did not expect are asked for. A pass that
//     goes on with the stored CronJob instead of the cached one does so before it notes
//     anything in the status.
//  4. If a scheduled time has come, and the deadline, the concurrency policy and the
//     suspension allow it, its Job is created. Of several missed times only the most
//     recent one is run. The name of the Job follows from the time: a second attempt
//     finds the first one's Job.
//  5. The status is written at most once per reconcile, at the end.
//
// Behaviour: specs/cronjob-controller.md.
package cronjob

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// Descriptor describes cronjob-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "cronjob-controller",
		Aliases:        []string{"cronjob"},
		Doc:            "Creates Jobs on a schedule and removes old ones.",
		ServiceAccount: "cronjob-controller",
		EventSource:    "cronjob-controller",
		Requires: []schema.GroupVersionResource{
			batchv1.SchemeGroupVersion.WithResource("cronjobs"),
			batchv1.SchemeGroupVersion.WithResource("jobs"),
		},
	}, configOf, build)
}

type config struct{ workers int }

func configOf(c *controller.Config) config {
	return config{workers: int(*c.Controllers.CronJob.ConcurrentSyncs)}
}

type cronJobController struct {
	client    kubernetes.Interface
	cronJobs  batchlisters.CronJobLister
	jobs      index.Jobs
	events    record.EventRecorder
	clock     clock.PassiveClock
	schedules *schedules
	metrics   controllerMetrics
	loop      *reconcile.Loop[types.NamespacedName]
}

func build(env controller.Env, c config) (controller.Controller, error) {
	cron, err := newController(env, c)
	if err != nil {
		return nil, err
	}
	return cron, nil
}

func newController(env controller.Env, config config) (*cronJobController, error) {
	cronJobs, jobs := env.Informers.Batch().V1().CronJobs(), env.Informers.Batch().V1().Jobs().Informer()
	byController, err := index.NewJobs(jobs)
	if err != nil {
		return nil, err
	}
	c := &cronJobController{
		client:    env.Client,
		cronJobs:  cronJobs.Lister(),
		jobs:      byController,
		events:    env.Events,
		clock:     env.Clock,
		schedules: newSchedules(),
		metrics:   newMetrics(env.Metrics),
	}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{Queue: "cronjob", Workers: config.workers}, c.reconcile)
	err = watch.Objects(cronJobs.Informer(), watch.Funcs[*batchv1.CronJob]{
		Add:    func(lane reconcile.Lane, cj *batchv1.CronJob) { c.loop.Enqueue(lane, keyOf(cj)) },
		Update: c.cronJobUpdated,
		Delete: func(cj *batchv1.CronJob) { c.loop.Add(keyOf(cj)) },
	})
	if err != nil {
		return nil, err
	}
	err = watch.Objects(jobs, watch.Funcs[*batchv1.Job]{
		Add:    c.jobSeen,
		Update: c.jobUpdated,
		Delete: func(job *batchv1.Job) { c.jobSeen(reconcile.Fresh, job) },
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Run implements controller.Controller.
func (c *cronJobController) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// cronJobUpdated waits for the next time of a new schedule; anything else is looked at.
func (c *cronJobController) cronJobUpdated(lane reconcile.Lane, old, cj *batchv1.CronJob) {
	if old.Spec.Schedule == cj.Spec.Schedule && ptr.Equal(old.Spec.TimeZone, cj.Spec.TimeZone) {
		c.loop.Enqueue(lane, keyOf(cj))
		return
	}
	schedule, err := c.schedules.parse(effective(&cj.Spec))
	if err != nil {
		c.record(cj, unparseableUpdate(cj.Spec.Schedule))
		return
	}
	c.loop.AddAfter(keyOf(cj), untilNext(cj, schedule, c.clock.Now()))
}

func (c *cronJobController) jobSeen(lane reconcile.Lane, job *batchv1.Job) {
	get := func(name string) (*batchv1.CronJob, error) { return c.cronJobs.CronJobs(job.Namespace).Get(name) }
	if cj, ok := ownership.Resolve(metav1.GetControllerOfNoCopy(job), kind.Kind, get); ok {
		c.loop.Enqueue(lane, keyOf(cj))
	}
}

// jobUpdated looks at the CronJob of a Job whose end or owner changed. Progress of a Job
// that goes on changes nothing here.
func (c *cronJobController) jobUpdated(lane reconcile.Lane, old, job *batchv1.Job) {
	sameOwner := ownership.SameController(old, job)
	if sameOwner && howEnded(old) == howEnded(job) && ptr.Equal(old.Status.CompletionTime, job.Status.CompletionTime) {
		return
	}
	if !sameOwner {
		c.jobSeen(lane, old)
	}
	c.jobSeen(lane, job)
}

func (c *cronJobController) record(cj *batchv1.CronJob, e event) {
	c.events.Event(cj, e.kind, e.reason, e.message)
}

func (c *cronJobController) reconcile(ctx context.Context, key types.NamespacedName) error {
	cached, err := c.cronJobs.CronJobs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up cron job %s: %w", key, err)
	}
	children, err := c.jobs.OwnedBy(kind.Kind, cached)
	if err != nil {
		return err
	}
	s := &run{cronJobController: c, cj: cached.DeepCopy(), children: children, now: c.clock.Now()}
	wait, err := s.do(ctx)
	if s.dirty {
		if _, failure := c.client.BatchV1().CronJobs(key.Namespace).UpdateStatus(ctx, s.cj, metav1.UpdateOptions{}); failure != nil {
			return statusFailure(key, failure)
		}
	}
	if wait == nil {
		return err
	}
	c.loop.AddAfter(key, *wait)
	return nil
}

func statusFailure(key types.NamespacedName, err error) error {
	err = fmt.Errorf("updating the status of cron job %s: %w", key, err)
	if apierrors.IsConflict(err) {
		return reconcile.Requeue(err)
	}
	return err
}

// in returns a duration to wait.
func in(d time.Duration) *time.Duration { return &d }
