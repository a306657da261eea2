package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

func (c *jobController) reconcile(ctx context.Context, job *batchv1.Job) error {
	key := reconcile.KeyOf(job)
	switch {
	case c.managedElsewhere(job):
		return nil // the key may have been queued for an earlier Job of that name
	case isFinished(job):
		c.sweep(job)                   // a pod of which the Job did not know may have shown up
		c.owners.Selectors.Forget(key) // of many finished Jobs, none is needed again
		c.memory.forget(key)
		c.owners.Writes.Forget(job)
		return nil
	case c.hasFinished(job):
		return nil
	case !knownMode(job):
		c.Record(unknownMode(job))
		return nil
	}
	return c.sync(ctx, job.DeepCopy())
}

// hasFinished reports whether this process has finished a Job, regardless of what the cache
// shows. The record expires, since an API server restored from a backup has the Job unfinished
// again; if the Job has finished after all, a write then fails with a conflict.
func (c *jobController) hasFinished(job *batchv1.Job) bool {
	at, ok := c.memory.finished.get(reconcile.KeyOf(job), job.UID)
	if !ok {
		return false
	}
	left := writes.Timeout - c.Clock.Since(at)
	if left > 0 {
		c.owners.EnqueueAfter(job, left)
	}
	return left > 0
}

// sync reconciles one Job. job is a copy.
func (c *jobController) sync(ctx context.Context, job *batchv1.Job) (err error) {
	began, action := c.Clock.Now(), actionReconciling
	defer func() { c.metrics.synced(job, action, failure(err), c.Clock.Since(began)) }()

	key := reconcile.KeyOf(job)
	// Called before the pods are listed: a pod that arrives in between must not count as
	// missing.
	settled := c.owners.Settled(job)
	// This too: a removal that the cache shows in between must not be forgotten while the list
	// has the old pod.
	removed, err := c.unseenRemovals(ctx, key)
	if err != nil {
		return err
	}
	all, err := c.claim(ctx, job, settled)
	if err != nil {
		return err
	}
	now := c.Clock.Now()
	last := c.lastBackoff(key, job.UID, now)
	r := observe(job, replacementOf(job, c.config.podReplacementPolicy), all, removed, last, now)
	r.settled = settled
	c.updateSightings(r)
	if r.podGroup, err = c.ensureGang(ctx, r); err != nil {
		return err
	}
	c.letGo(ctx, r)
	r.end = r.decideEnd()
	action, actErr := c.act(ctx, r, action)
	for _, after := range r.wakeUps {
		c.owners.EnqueueAfter(job, after)
	}
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), actErr)
	}
	changed := c.reportSuspension(r, action) // before the counts, and both always
	if err := c.track(ctx, r, r.reportCounts() || changed); err != nil {
		return fmt.Errorf("tracking status: %w", err)
	}
	return actErr
}

// failure returns err unless the Job is only waiting for the outcome of an unanswered create.
func failure(err error) error {
	if errors.Is(err, writes.ErrUncertain) {
		return nil
	}
	return err
}

// act deletes the pods of a Job that ends, and removes or creates pods of one that continues.
func (c *jobController) act(ctx context.Context, r *reconciliation, action string) (string, error) {
	if r.end != nil {
		none, err := c.endPods(ctx, r)
		if !none || !r.settled {
			r.end = nil // there may be pods that the cache does not show yet
		}
		return action, cmp.Or(err, c.awaitUncertain(r))
	}
	if !r.settled {
		return action, nil // there may be pods that the cache does not show yet
	}
	var err error
	if r.job.DeletionTimestamp == nil {
		action, err = c.manage(ctx, r)
	}
	if r.end = r.reachedCompletions(r.activeCount()); r.end != nil {
		err = cmp.Or(err, c.awaitUncertain(r))
	}
	return action, err
}

// awaitUncertain clears r.end while an unanswered create may have produced a pod, and returns the error to requeue
// with.
func (c *jobController) awaitUncertain(r *reconciliation) error {
	uncertain := c.owners.Writes.MayCreate(r.job, "")
	if uncertain != nil {
		r.end = nil
	}
	return uncertain
}

// reportSuspension sets the condition Suspended according to the spec, once the pods were
// managed accordingly. It reports whether that changed the status.
func (c *jobController) reportSuspension(r *reconciliation, action string) bool {
	if action == actionReconciling || r.end != nil {
		return false
	}
	status, reason, message := corev1.ConditionFalse, reasonResumed, messageResumed
	event := resumedJob(r.job)
	if isSuspended(r.job) {
		status, reason, message = corev1.ConditionTrue, reasonSuspended, messageSuspended
		event = suspendedJob(r.job)
	}
	if !ensureCondition(r.job, newCondition(batchv1.JobSuspended, status, reason, message, r.now)) {
		return false
	}
	r.suspension = &event
	if !isSuspended(r.job) {
		now := metav1.NewTime(r.now)
		r.job.Status.StartTime = &now
	} else if c.config.resetStartTimeOfSuspended {
		r.job.Status.StartTime = nil
	}
	return true
}

func selectorOf(job *batchv1.Job) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(job.Spec.Selector)
}

// claim adopts and releases pods as needed and returns those that the Job controls. Newly
// adopted pods are returned with their finalizer.
func (c *jobController) claim(ctx context.Context, job *batchv1.Job, settled bool) ([]*corev1.Pod, error) {
	selector, err := c.owners.Selectors.Of(job)
	if err != nil {
		return nil, fmt.Errorf("parsing the selector: %w", err)
	}
	candidates, err := c.candidates(ctx, job, selector, settled)
	if err != nil {
		return nil, err
	}
	claimer := owners.ClaimerFor(c.owners, job, "Pod", selector, c.podControl.PatchFor(job))
	claimer.Finalizers = []string{batchv1.JobTrackingFinalizer}
	claimed, err := claimer.Claim(ctx, candidates)
	if err != nil {
		return nil, err
	}
	for i, pod := range claimed {
		if !metav1.IsControlledBy(pod, job) && !isTracked(pod) {
			adopted := *pod
			adopted.Finalizers = append(slices.Clone(pod.Finalizers), batchv1.JobTrackingFinalizer)
			claimed[i] = &adopted
		}
	}
	return claimed, nil
}
