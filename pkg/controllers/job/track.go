package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
)

// track writes the status and removes the finalizers of the pods it accounts for, in the
// order that the type accounting explains.
func (c *jobController) track(ctx context.Context, r *reconciliation, changed bool) error {
	a := newAccounting(r, changed)
	a.moveToCounters()
	a.count()
	a.reportIndexes()
	a.announceEnd()
	var terminal *batchv1.JobCondition
	if len(a.removable) == 0 {
		terminal = a.declareEnd() // no finalizer has to be removed in between: one write is enough
	}
	wrote, err := c.writeStatus(ctx, a)
	if err != nil {
		return fmt.Errorf("adding uncounted pods to status: %w", err)
	}
	if wrote && terminal == nil {
		c.rememberBackoff(r)
	}
	c.metrics.failuresHandled(a.handled)
	if len(a.removable) > 0 {
		if terminal, err = c.release(ctx, a); err != nil {
			return err
		}
	}
	if terminal != nil {
		c.memory.finished.set(r.key, r.job.UID, c.Clock.Now())
		c.announceFinish(r.job, terminal)
	}
	return nil
}

// release removes the finalizers of the pods that the status accounts for, and counts them.
func (c *jobController) release(ctx context.Context, a *accounting) (*batchv1.JobCondition, error) {
	released, failure := c.removeFinalizers(ctx, a.r, a.removable)
	for _, pod := range released {
		a.tracked.Delete(pod.UID)
	}
	a.moveToCounters()
	var terminal *batchv1.JobCondition
	if failure == nil {
		terminal = a.declareEnd()
	}
	if _, err := c.writeStatus(ctx, a); err != nil {
		return nil, fmt.Errorf("removing uncounted pods from status: %w", err)
	}
	return terminal, failure
}

// rememberBackoff stores the new backoff record, once the status includes the failures.
func (c *jobController) rememberBackoff(r *reconciliation) {
	if r.backoff == (backoffRecord{}) {
		c.memory.backoffs.drop(r.key, r.job.UID)
		return
	}
	c.memory.backoffs.set(r.key, r.job.UID, r.backoff)
}

// writeStatus writes the status if it has changed, and reports whether it had. A change of
// suspension is recorded as an event after the first write.
func (c *jobController) writeStatus(ctx context.Context, a *accounting) (wrote bool, err error) {
	if !a.changed {
		return false, nil
	}
	r := a.r
	updated, err := c.Client.BatchV1().Jobs(r.job.Namespace).UpdateStatus(controller.OnlyMetadata(ctx), r.job, metav1.UpdateOptions{})
	if err != nil {
		return false, err
	}
	a.changed = false
	r.job.ResourceVersion = updated.ResourceVersion
	c.owners.WroteOwner(r.job, updated)
	c.metrics.podsFinished(r.job, &r.reported)
	r.reported = *r.job.Status.DeepCopy()
	if r.suspension != nil {
		c.Record(*r.suspension)
		r.suspension = nil
	}
	return true, nil
}

// announceFinish records the end of a Job as events and in metrics.
func (c *jobController) announceFinish(job *batchv1.Job, terminal *batchv1.JobCondition) {
	c.metrics.jobFinished(job, terminal)
	if terminal.Type == batchv1.JobFailed {
		c.Record(failedJob(job, terminal))
		return
	}
	if job.Spec.Completions != nil && job.Status.Succeeded > *job.Spec.Completions {
		c.Record(tooManySucceeded(job))
	}
	c.Record(completedJob(job))
}
