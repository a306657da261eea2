package statefulset

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/slowstart"
)

// maxBatch is the largest number of pods of a parallel set that are processed at once, and that
// are created in one reconcile. Their events cause the reconciles that create the rest.
const maxBatch = 500

// task is the next action for one pod.
type task struct {
	// run performs it; nil if there is none.
	run func(ctx context.Context) error
	// last ends the reconcile of an ordered set after this task.
	last bool
}

// advance brings the pods of a set one step closer to its spec, and returns the status of the
// observed state.
func (c *statefulSetController) advance(ctx context.Context, p *observation) (appsv1.StatefulSetStatus, error) {
	l := layOut(p.set, p.members, p.now, func(missing *corev1.Pod) bool {
		stale, err := c.claimsAreStale(p.set, missing)
		return stale && err == nil
	})
	status := countStatus(p.set, p.revisions, l.all(), p.now)

	wrote, refused := c.releaseRetained(ctx, p.set, l.all())
	if wrote {
		// The update of the claims enqueues the set again, unless one is deleted before the cache shows it.
		c.owners.EnqueueAfter(p.set, reconcile.RecheckAfter)
	}
	if wrote || refused != nil && ctx.Err() != nil {
		return status, refused
	}
	status, err := c.fill(ctx, p, l, status)
	return status, worst(present(err, refused))
}

// fill creates, replaces, removes and rolls pods.
func (c *statefulSetController) fill(
	ctx context.Context, p *observation, l layout, status appsv1.StatefulSetStatus,
) (appsv1.StatefulSetStatus, error) {
	done, err := c.fillSlots(ctx, p, l.replicas)
	if !done || l.cut {
		return status, err
	}
	done, err = c.forEach(ctx, p.set, l.condemned, func(pod *corev1.Pod) task { return c.disownTask(ctx, p, pod) })
	if !done {
		return status, err
	}
	done, err = c.forEach(ctx, p.set, l.condemned, func(pod *corev1.Pod) task {
		return c.condemnedTask(p, pod, l.firstUnavailable)
	})
	if !done {
		return status, err
	}
	if p.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return status, nil
	}
	err = c.roll(ctx, p, l.replicas, &status)
	return status, err
}

// fillSlots works on the pods of slots to be filled. In a parallel set, missing pods are created in a slow start, even
// if others failed: the error of one pod may be permanent, and is no reason to leave slots empty.
func (c *statefulSetController) fillSlots(
	ctx context.Context, p *observation, replicas []*corev1.Pod,
) (done bool, err error) {
	next := func(pod *corev1.Pod) task { return c.replicaTask(ctx, p, pod) }
	if isOrdered(p.set) {
		return inOrder(ctx, replicas, next)
	}
	var existing, missing []func(context.Context) error
	for _, pod := range replicas {
		switch t := next(pod); {
		case t.run == nil:
		case isCreated(pod):
			existing = append(existing, t.run)
		default:
			missing = append(missing, t.run)
		}
	}
	errs := append(atOnce(ctx, existing), createAll(ctx, missing)...)
	return len(errs) == 0, worst(errs)
}

// atOnce runs everything, no more than maxBatch at once, and returns the errors.
func atOnce(ctx context.Context, runs []func(context.Context) error) []error {
	run := func(ctx context.Context, i int) error { return runs[i](ctx) }
	var errs []error
	for first := 0; first < len(runs); first += maxBatch {
		errs = append(errs, slowstart.All(ctx, first, min(first+maxBatch, len(runs)), run)...)
	}
	return errs
}

// createAll creates missing pods in a slow start, and returns the errors. A pod whose claim is being deleted does not
// end it: that says nothing about the others.
func createAll(ctx context.Context, missing []func(context.Context) error) []error {
	waiting := make([]error, len(missing))
	_, errs := slowstart.Do(ctx, len(missing), maxBatch, func(ctx context.Context, i int) error {
		err := missing[i](ctx)
		if going := claimIsGoing(""); errors.As(err, &going) {
			waiting[i], err = err, nil
		}
		return err
	})
	return append(errs, present(waiting...)...)
}

// forEach runs the tasks of pods: those of an ordered set one by one, until one fails or is the
// last; those of a parallel set all, in a slow start. It returns true if none failed and, in an
// ordered set, none was the last.
func (c *statefulSetController) forEach(
	ctx context.Context, set *appsv1.StatefulSet, all []*corev1.Pod, next func(*corev1.Pod) task,
) (done bool, err error) {
	if isOrdered(set) {
		return inOrder(ctx, all, next)
	}
	var runs []func(context.Context) error
	for _, pod := range all {
		if t := next(pod); t.run != nil {
			runs = append(runs, t.run)
		}
	}
	_, errs := slowstart.Do(ctx, len(runs), maxBatch, func(ctx context.Context, i int) error { return runs[i](ctx) })
	return len(errs) == 0, worst(errs)
}

// present returns the errors that are not nil.
func present(errs ...error) []error {
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// worst returns the failures; if all errors are expected, the first of them.
func worst(errs []error) error {
	failures := slices.DeleteFunc(slices.Clone(errs), reconcile.IsExpected)
	switch len(failures) {
	case 0:
		return cmp.Or(errs...)
	case 1:
		return failures[0]
	}
	return utilerrors.NewAggregate(failures)
}

func inOrder(ctx context.Context, all []*corev1.Pod, next func(*corev1.Pod) task) (done bool, err error) {
	for _, pod := range all {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		t := next(pod)
		if t.run != nil {
			if err := t.run(ctx); err != nil {
				return false, err
			}
		}
		if t.last {
			return false, nil
		}
	}
	return true, nil
}

// replicaTask returns the task for the pod of a slot to be filled.
func (c *statefulSetController) replicaTask(ctx context.Context, p *observation, pod *corev1.Pod) task {
	next := replicaStep(p.set, pod, p.now)
	switch next {
	case stepRemove:
		return task{last: true, run: func(ctx context.Context) error { return c.deletePod(ctx, p.set, pod) }}
	case stepCreate:
		return task{last: true, run: func(ctx context.Context) error { return c.createReplica(ctx, p, ordinalOf(pod)) }}
	}
	t := task{last: next == stepWait}
	if pod.Status.Phase == corev1.PodPending {
		t.run = func(ctx context.Context) error {
			if err := c.fixPending(ctx, p.set, pod); err != nil {
				return err
			}
			if next == stepKeep && !(identityMatches(p.set, pod) && storageMatches(p.set, pod)) {
				return c.updatePod(ctx, p.set, pod)
			}
			return nil
		}
		return t
	}
	if next == stepKeep && !c.isConsistent(ctx, p.set, pod) {
		t.run = func(ctx context.Context) error { return c.updatePod(ctx, p.set, pod) }
	}
	return t
}

// isConsistent reports whether a pod has the identity and volumes of its slot, and its claims
// their owners. If the claims cannot be read, they are assumed to be right.
func (c *statefulSetController) isConsistent(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	if !identityMatches(set, pod) || !storageMatches(set, pod) {
		return false
	}
	matches, err := c.claimsMatchPolicy(ctx, set, pod)
	return matches || err != nil
}

// releaseRetained removes the pods and the set as owners of claims that the policy retains, and reports whether any
// claim was written: claims of slots to be filled, whose pods became owners while they were condemned, and claims that
// had an owner before the policy was changed. It runs before everything else, in no particular order: such a pod, or
// the set, may be deleted at any time by anybody, and the garbage collector would delete the claims. A refused write
// does not prevent the rest.
func (c *statefulSetController) releaseRetained(
	ctx context.Context, set *appsv1.StatefulSet, all []*corev1.Pod,
) (wrote bool, refused error) {
	owned, err := c.withOwnedClaims(set, all)
	if err != nil {
		return false, err
	}
	var written atomic.Bool
	var fixes []func(context.Context) error
	for _, pod := range owned {
		fixes = append(fixes, func(ctx context.Context) error {
			did, err := c.fixOwners(ctx, set, pod)
			if did {
				written.Store(true)
			}
			return err
		})
	}
	err = worst(atOnce(ctx, fixes))
	return written.Load(), err
}

// disownTask sets the owners of a condemned pod's claims as the policy requires, before the pod
// is deleted.
func (c *statefulSetController) disownTask(ctx context.Context, p *observation, pod *corev1.Pod) task {
	matches, err := c.claimsMatchPolicy(ctx, p.set, pod)
	if err != nil {
		return task{run: func(context.Context) error { return err }}
	}
	if matches {
		return task{}
	}
	return task{run: func(ctx context.Context) error {
		_, err := c.fixClaimOwners(ctx, p.set, pod)
		return err
	}}
}

// condemnedTask returns the task for a condemned pod.
func (c *statefulSetController) condemnedTask(p *observation, pod, firstUnavailable *corev1.Pod) task {
	switch condemnedStep(p.set, pod, firstUnavailable, p.now) {
	case stepWait:
		return task{last: true}
	case stepRemove:
		return task{last: true, run: func(ctx context.Context) error { return c.deletePod(ctx, p.set, pod) }}
	}
	return task{}
}

// roll deletes the pods that are next in the rolling update. The status no longer counts them
// as current ones.
func (c *statefulSetController) roll(
	ctx context.Context, p *observation, replicas []*corev1.Pod, status *appsv1.StatefulSetStatus,
) error {
	victims, err := c.victims(p, replicas)
	if err != nil {
		return err
	}
	for _, pod := range victims {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		klog.FromContext(ctx).V(2).Info("Deleting pod for a rolling update",
			"statefulSet", klog.KObj(p.set), "pod", klog.KObj(pod))
		if err := c.deletePod(ctx, p.set, pod); err != nil {
			return err
		}
		if revisionOf(pod) == p.current.Name {
			status.CurrentReplicas--
		}
	}
	return nil
}

func (c *statefulSetController) victims(p *observation, replicas []*corev1.Pod) ([]*corev1.Pod, error) {
	if !c.value.maxUnavailable {
		return nextVictim(p.set, replicas, p.update.Name, p.now), nil
	}
	limit, err := maxUnavailableOf(p.set)
	if err != nil {
		return nil, err
	}
	unavailable := countUnavailable(p.set, replicas, p.now)
	c.metrics.rolling(p.set, limit, unavailable)
	return victimsWithin(p.set, replicas, p.update.Name, limit, unavailable), nil
}
