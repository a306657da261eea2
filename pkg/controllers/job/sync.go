package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *jobController) reconcile(ctx context.Context, key types.NamespacedName) error {
	job, err := c.current(key)
	switch {
	case apierrors.IsNotFound(err):
		c.forget(key)
		c.selectors.Forget(key)
		c.tracker.Forget(key, "")
		return nil
	case reconcile.IsRequeue(err):
		return err
	case err != nil:
		return fmt.Errorf("reading job %s: %w", key, err)
	case c.managedElsewhere(job):
		return nil // the key may have been queued for a predecessor of that name
	case isFinished(job):
		c.forget(key)
		c.tracker.Forget(key, job.UID)
		return nil
	case c.hasFinished(key, job.UID):
		return nil
	case !knownMode(job):
		c.events.Event(job, corev1.EventTypeWarning, reasonUnknownMode, "Skipped Job sync because completion mode is unknown")
		return nil
	}
	if err = c.sync(ctx, job.DeepCopy()); apierrors.IsConflict(err) {
		return reconcile.Requeue(err) // the cache is behind
	}
	return err
}

// current returns the Job as it is cached. It fails while the caches are older than what was
// written for the Job, if the gate is on.
func (c *jobController) current(key types.NamespacedName) (*batchv1.Job, error) {
	get := func() (*batchv1.Job, error) { return c.jobs.Jobs(key.Namespace).Get(key.Name) }
	if !c.requireFresh {
		return get()
	}
	job, err := expectations.Read(c.tracker, key, get)
	var stale *expectations.StaleError
	if !errors.As(err, &stale) {
		return job, err
	}
	c.metrics.staleSyncSkipped(stale.Resource)
	return nil, reconcile.Requeue(err)
}

// hasFinished reports that this process has finished a Job whatever the cache shows. That
// is believed for a time only, after which a write to a Job that has finished would meet a
// conflict: an API server that was restored from a backup knows nothing of it.
func (c *jobController) hasFinished(key types.NamespacedName, uid types.UID) bool {
	at, ok := c.finished.get(key, uid)
	if !ok {
		return false
	}
	left := expectations.Timeout - c.clock.Since(at)
	if left > 0 {
		c.queue.AddAfter(key, left)
	}
	return left > 0
}

// forget drops what is remembered for a Job that is finished or gone.
func (c *jobController) forget(key types.NamespacedName) {
	c.backoffs.drop(key, "")
	c.removals.drop(key)
	c.finished.drop(key, "")
}

// remembers reports that something is remembered for a Job that forget would drop.
func (c *jobController) remembers(key types.NamespacedName) bool {
	return c.backoffs.has(key) || c.removals.hasAny(key) || c.finished.has(key)
}

// sync brings one Job forward. job is a copy.
func (c *jobController) sync(ctx context.Context, job *batchv1.Job) (err error) {
	began, action := c.clock.Now(), actionReconciling
	defer func() { c.metrics.synced(job, action, err, c.clock.Since(began)) }()

	key := keyOf(job)
	// Before the pods are listed: one that lands in between must not be missing.
	settled, retry := c.tracker.Settled(key, job.UID)
	if retry > 0 {
		c.queue.AddAfter(key, retry)
	}
	// Before that too: a removal that the cache shows only later must not be forgotten
	// while the list has the pod as it was.
	removed, err := c.unseenRemovals(ctx, key)
	if err != nil {
		return err
	}
	all, err := c.claim(ctx, job)
	if err != nil {
		return err
	}
	last, _ := c.backoffs.get(key, job.UID)
	o := observe(job, replacementOf(job, c.podReplacementPolicy), all, removed, last, c.clock.Now())
	o.settled = settled
	if o.podGroup, err = c.ensureGang(ctx, o); err != nil {
		return err
	}
	o.end = o.decideEnd()
	action, actErr := c.act(ctx, o, action)
	for _, after := range o.wakeUps {
		c.queue.AddAfter(key, after)
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

// act deletes the pods of a Job that ends, and removes or creates pods of one that goes on.
func (c *jobController) act(ctx context.Context, o *observation, action string) (string, error) {
	if o.end != nil {
		none, err := c.endPods(ctx, o)
		if !none || !o.settled {
			o.end = nil // there may be pods that were not seen
		}
		return action, err
	}
	var err error
	if o.settled && o.job.DeletionTimestamp == nil {
		action, err = c.manage(ctx, o)
	}
	o.end = o.reachedCompletions(o.activeCount())
	return action, err
}

// reportSuspension keeps the condition Suspended as the spec has it, once pods were managed
// accordingly. It reports whether that changed the status.
func (c *jobController) reportSuspension(o *observation, action string) bool {
	if action == actionReconciling || o.end != nil {
		return false
	}
	status, reason, message := corev1.ConditionFalse, conditionReasonResumed, messageResumed
	told := event{reasonResumed, messageResumed}
	if isSuspended(o.job) {
		status, reason, message = corev1.ConditionTrue, conditionReasonSuspended, messageSuspended
		told = event{reasonSuspended, messageSuspended}
	}
	if !ensureCondition(o.job, newCondition(batchv1.JobSuspended, status, reason, message, o.now)) {
		return false
	}
	o.suspension = &told
	if !isSuspended(o.job) {
		now := metav1.NewTime(o.now)
		o.job.Status.StartTime = &now
	} else if c.resetStartTimeOfSuspended {
		o.job.Status.StartTime = nil
	}
	return true
}

func selectorOf(job *batchv1.Job) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(job.Spec.Selector)
}

// claim returns the pods that a Job controls after it has adopted and released what it
// should. Pods adopted just now are returned with their finalizer.
func (c *jobController) claim(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	selector, err := c.selectors.Of(job)
	if err != nil {
		return nil, fmt.Errorf("parsing the selector: %w", err)
	}
	candidates, err := c.byOwner.OwnedByOrOrphans(jobKind.Kind, job)
	if err != nil {
		return nil, err
	}
	claimed, err := ownership.Claimer[*corev1.Pod]{
		Owner:      job,
		OwnerKind:  jobKind,
		Kind:       "Pod",
		Selector:   selector,
		Finalizers: []string{batchv1.JobTrackingFinalizer},
		CanAdopt: ownership.Recheck(job, jobKind.Kind, func(ctx context.Context) (*batchv1.Job, error) {
			return c.client.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		}),
		Patch: c.pods.PatchFor(job),
	}.Claim(ctx, candidates)
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
