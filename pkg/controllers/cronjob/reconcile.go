package cronjob

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconciliation is one reconcile of a CronJob.
type reconciliation struct {
	*cronJobController
	cj       *batchv1.CronJob // a copy, whose status is modified
	children []*batchv1.Job
	now      time.Time
	dirty    bool           // the status must be written
	again    *time.Duration // the delay until the next reconcile, nil if only an event causes one
	removed  []types.UID
	news     bool        // a Job is kept until the cache shows its time and its success in the status
	started  []time.Time // by reconciles before, without being recorded
}

func (c *cronJobController) reconcile(ctx context.Context, cached *batchv1.CronJob) error {
	children, err := c.jobs.OwnedBy(kind.Kind, cached)
	if err != nil {
		return err
	}
	c.starts.recorded(cached)
	r := &reconciliation{
		cronJobController: c, cj: cached.DeepCopy(), children: children, now: c.Clock.Now(), started: c.starts.all(cached),
	}
	if err := r.run(ctx, cached); err != nil {
		c.awaitNext(cached, r.now)
		return err
	}
	if r.again != nil {
		c.owners.EnqueueAfter(cached, *r.again)
	}
	return nil
}

// awaitNext has a CronJob whose reconcile failed reconciled at its next scheduled time. The retry may be later, when it
// is too late to start.
func (c *cronJobController) awaitNext(cj *batchv1.CronJob, now time.Time) {
	if cj.DeletionTimestamp != nil || ptr.Deref(cj.Spec.Suspend, false) {
		return
	}
	schedule, err := c.schedules.parse(effective(&cj.Spec))
	if err != nil {
		return
	}
	if delay := untilNext(cj, schedule, now); delay > 0 {
		c.owners.EnqueueAfter(cj, max(delay-c.Clock.Since(now), time.Millisecond)) // what failed may have taken long
	}
}

// run reconciles the CronJob and writes its status.
func (r *reconciliation) run(ctx context.Context, cached *batchv1.CronJob) error {
	err := r.do(ctx)
	if r.news {
		r.within(r.untilRecorded())
	}
	if !r.dirty {
		return err
	}
	written, failure := r.Client.BatchV1().CronJobs(cached.Namespace).
		UpdateStatus(controller.OnlyMetadata(ctx), r.cj, metav1.UpdateOptions{})
	if failure != nil {
		return fmt.Errorf("updating the status of cron job %s: %w", klog.KObj(cached), failure)
	}
	r.cj.ObjectMeta = written.ObjectMeta
	r.owners.WroteOwner(cached, r.cj)
	return err
}

// within has the CronJob reconciled again after a delay at the latest.
func (r *reconciliation) within(delay time.Duration) {
	if r.again == nil || *r.again > delay {
		r.again = &delay
	}
}

// untilRecorded returns the delay of the next reconcile if a Job is kept until it is recorded in the status. A write
// of the status records it. Without one, the stored status has it already, and only the cache does not show that.
func (r *reconciliation) untilRecorded() time.Duration {
	if r.dirty {
		return 0
	}
	return reconcile.RecheckAfter
}

// do reconciles the CronJob.
func (r *reconciliation) do(ctx context.Context) error {
	r.prune(ctx)
	if err := r.trackChildren(ctx); err != nil {
		return err
	}
	if err := r.trackActive(ctx); err != nil {
		return err
	}
	if r.cj.DeletionTimestamp != nil {
		return nil
	}
	schedule, ok := r.schedule()
	if !ok {
		return nil
	}
	return r.start(ctx, schedule)
}
