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
	"k8s.io/apimachinery/pkg/types"

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
		c.forget(key)
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
	at, ok := c.finished.get(reconcile.KeyOf(job), job.UID)
	if !ok {
		return false
	}
	left := writes.Timeout - c.Clock.Since(at)
	if left > 0 {
		c.owners.EnqueueAfter(job, left)
	}
	return left > 0
}

// forget drops the state of a Job that has finished or no longer exists.
func (c *jobController) forget(key types.NamespacedName) {
	c.backoffs.drop(key, "")
	c.sightings.drop(key, "")
	c.removals.drop(key)
	c.missed.drop(key)
	c.finished.drop(key, "")
}

// remembers reports whether there is state of a Job that forget would drop.
func (c *jobController) remembers(key types.NamespacedName) bool {
	return c.backoffs.has(key) || c.sightings.has(key) || c.removals.hasAny(key) || c.missed.hasAny(key) || c.finished.has(key)
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
	o := observe(job, replacementOf(job, c.value.podReplacementPolicy), all, removed, last, now)
	o.settled = settled
	c.sight(o)
	if o.podGroup, err = c.ensureGang(ctx, o); err != nil {
		return err
	}
	o.end = o.decideEnd()
	action, actErr := c.act(ctx, o, action)
	for _, after := range o.wakeUps {
		c.owners.EnqueueAfter(job, after)
	}
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), actErr)
	}
	changed := c.reportSuspension(o, action) // before the counts, and both always
	if err := c.track(ctx, o, o.reportCounts() || changed); err != nil {
		return fmt.Errorf("tracking status: %w", err)
	}
	return actErr
}

// failure returns an error that counts as one. That a Job waits until it is known which pods it has does not.
func failure(err error) error {
	if errors.Is(err, writes.ErrUncertain) {
		return nil
	}
	return err
}

// act deletes the pods of a Job that ends, and removes or creates pods of one that continues.
func (c *jobController) act(ctx context.Context, o *observation, action string) (string, error) {
	if o.end != nil {
		none, err := c.endPods(ctx, o)
		if !none || !o.settled {
			o.end = nil // there may be pods that the cache does not show yet
		}
		return action, cmp.Or(err, c.awaitUncertain(o))
	}
	if !o.settled {
		return action, nil // there may be pods that the cache does not show yet
	}
	var err error
	if o.job.DeletionTimestamp == nil {
		action, err = c.manage(ctx, o)
	}
	if o.end = o.reachedCompletions(o.activeCount()); o.end != nil {
		err = cmp.Or(err, c.awaitUncertain(o))
	}
	return action, err
}

// awaitUncertain keeps a Job from ending while it may have a pod of which nobody knows, and returns the reason.
func (c *jobController) awaitUncertain(o *observation) error {
	uncertain := c.owners.Writes.MayCreate(o.job, "")
	if uncertain != nil {
		o.end = nil
	}
	return uncertain
}

// reportSuspension sets the condition Suspended according to the spec, once the pods were
// managed accordingly. It reports whether that changed the status.
func (c *jobController) reportSuspension(o *observation, action string) bool {
	if action == actionReconciling || o.end != nil {
		return false
	}
	status, reason, message := corev1.ConditionFalse, reasonResumed, messageResumed
	event := resumedJob(o.job)
	if isSuspended(o.job) {
		status, reason, message = corev1.ConditionTrue, reasonSuspended, messageSuspended
		event = suspendedJob(o.job)
	}
	if !ensureCondition(o.job, newCondition(batchv1.JobSuspended, status, reason, message, o.now)) {
		return false
	}
	o.suspension = &event
	if !isSuspended(o.job) {
		now := metav1.NewTime(o.now)
		o.job.Status.StartTime = &now
	} else if c.value.resetStartTimeOfSuspended {
		o.job.Status.StartTime = nil
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
