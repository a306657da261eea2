package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// track writes the status and removes the finalizers of the pods it accounts for, in the
// order that the type accounting explains.
func (c *jobController) track(ctx context.Context, o *observation, changed bool) error {
	a := newAccounting(o, changed)
	a.settle()
	a.count()
	a.reportIndexes()
	a.announceEnd()
	var terminal *batchv1.JobCondition
	if len(a.removable) == 0 {
		terminal = a.declareEnd() // nothing has to happen in between: one write is enough
	}
	wrote, err := c.writeStatus(ctx, a)
	if err != nil {
		return fmt.Errorf("adding uncounted pods to status: %w", err)
	}
	if wrote && terminal == nil {
		c.rememberBackoff(o)
	}
	c.metrics.failuresHandled(a.handled)
	if len(a.removable) > 0 {
		if terminal, err = c.release(ctx, a); err != nil {
			return err
		}
	}
	if terminal != nil {
		c.finished.set(o.key, o.job.UID, c.clock.Now())
		c.announceFinish(o.job, terminal)
	}
	return nil
}

// release removes the finalizers of the pods that the status accounts for, and counts them.
func (c *jobController) release(ctx context.Context, a *accounting) (*batchv1.JobCondition, error) {
	released, failure := c.removeFinalizers(ctx, a.o, a.removable)
	for _, pod := range released {
		a.tracked.Delete(pod.UID)
	}
	a.settle()
	var terminal *batchv1.JobCondition
	if failure == nil {
		terminal = a.declareEnd()
	}
	if _, err := c.writeStatus(ctx, a); err != nil {
		return nil, fmt.Errorf("removing uncounted pods from status: %w", err)
	}
	return terminal, failure
}

// rememberBackoff makes the new back-off record hold, once the status knows of the failures.
func (c *jobController) rememberBackoff(o *observation) {
	if o.backoff == (backoffRecord{}) {
		c.backoffs.drop(o.key, o.job.UID)
		return
	}
	c.backoffs.set(o.key, o.job.UID, o.backoff)
}

// writeStatus sends the status if it has changed, and reports whether it had. With the first
// write a change of suspension has happened.
func (c *jobController) writeStatus(ctx context.Context, a *accounting) (wrote bool, err error) {
	if !a.changed {
		return false, nil
	}
	o := a.o
	updated, err := c.client.BatchV1().Jobs(o.job.Namespace).UpdateStatus(ctx, o.job, metav1.UpdateOptions{})
	if err != nil {
		return false, err
	}
	a.changed = false
	o.job.ResourceVersion = updated.ResourceVersion
	if c.requireFresh {
		c.tracker.Wrote(o.key, o.job.UID, jobResource, updated.ResourceVersion)
	}
	c.metrics.podsFinished(o.job, &o.reported)
	o.reported = *o.job.Status.DeepCopy()
	if o.suspension != nil {
		c.events.Event(o.job, corev1.EventTypeNormal, o.suspension.reason, o.suspension.message)
		o.suspension = nil
	}
	return true, nil
}

// announceFinish tells users and metrics that a Job has finished.
func (c *jobController) announceFinish(job *batchv1.Job, terminal *batchv1.JobCondition) {
	c.metrics.jobFinished(job, terminal)
	if terminal.Type == batchv1.JobFailed {
		c.events.Event(job, corev1.EventTypeWarning, terminal.Reason, terminal.Message)
		return
	}
	if job.Spec.Completions != nil && job.Status.Succeeded > *job.Spec.Completions {
		c.events.Event(job, corev1.EventTypeWarning, reasonTooManySucceeded, "Too many succeeded pods running after completion count reached")
	}
	c.events.Event(job, corev1.EventTypeNormal, reasonCompleted, "Job completed")
}
