package cronjob

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

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
	news     bool // a Job is kept until the cache shows its time and its success in the status
}

func (c *cronJobController) reconcile(ctx context.Context, cached *batchv1.CronJob) error {
	children, err := c.jobs.OwnedBy(kind.Kind, cached)
	if err != nil {
		return err
	}
	s := &reconciliation{cronJobController: c, cj: cached.DeepCopy(), children: children, now: c.Clock.Now()}
	err = s.do(ctx)
	if s.news {
		s.within(s.untilRecorded())
	}
	if s.dirty {
		written, failure := c.Client.BatchV1().CronJobs(cached.Namespace).UpdateStatus(controller.OnlyMetadata(ctx), s.cj, metav1.UpdateOptions{})
		if failure != nil {
			return fmt.Errorf("updating the status of cron job %s: %w", klog.KObj(cached), failure)
		}
		s.cj.ObjectMeta = written.ObjectMeta
		c.owners.Wrote(cached, s.cj)
	}
	if err == nil && s.again != nil {
		c.owners.EnqueueAfter(cached, *s.again)
	}
	return err
}

// within has the CronJob reconciled again after a delay at the latest.
func (s *reconciliation) within(delay time.Duration) {
	if s.again == nil || *s.again > delay {
		s.again = &delay
	}
}

// untilRecorded returns the delay of the next reconcile if a Job is kept until it is recorded in the status. A write
// of the status records it. Without one, the stored status has it already, and only the cache does not show that.
func (s *reconciliation) untilRecorded() time.Duration {
	if s.dirty {
		return 0
	}
	return reconcile.RecheckAfter
}

// do reconciles the CronJob.
func (s *reconciliation) do(ctx context.Context) error {
	s.prune(ctx)
	if err := s.trackChildren(ctx); err != nil {
		return err
	}
	if err := s.trackActive(ctx); err != nil {
		return err
	}
	if s.cj.DeletionTimestamp != nil {
		return nil
	}
	schedule, ok := s.schedule()
	if !ok {
		return nil
	}
	return s.start(ctx, schedule)
}
