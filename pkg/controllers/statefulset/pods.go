package statefulset

import (
	"context"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// syncPods brings the pods of a set one step closer to its spec, and returns the status of the
// observed state.
func (c *statefulSetController) syncPods(ctx context.Context, o *observation) (appsv1.StatefulSetStatus, error) {
	l := layOut(o.set, o.members, o.now, func(missing *corev1.Pod) bool {
		stale, err := c.claimsAreStale(o.set, missing)
		return stale && err == nil
	})
	status := countStatus(o.set, o.revisions, l.all(), o.now)

	wrote, refused := c.releaseRetained(ctx, o.set, l.all())
	if wrote {
		// The update of the claims enqueues the set again, unless one is deleted before the cache shows it.
		c.owners.EnqueueAfter(o.set, reconcile.RecheckAfter)
	}
	if wrote || refused != nil && ctx.Err() != nil {
		return status, refused
	}
	status, err := c.syncSlots(ctx, o, l, status)
	return status, joinFailures(present(err, refused))
}

// syncSlots creates and repairs the pods of the slots to be filled, removes condemned pods, and continues a rolling
// update. It ends early while one of these has to be waited for.
func (c *statefulSetController) syncSlots(
	ctx context.Context, o *observation, l layout, status appsv1.StatefulSetStatus,
) (appsv1.StatefulSetStatus, error) {
	done, err := c.createAndRepair(ctx, o, l.replicas)
	if !done || l.cut {
		return status, err
	}
	done, err = forEach(ctx, o.set, l.condemned, func(pod *corev1.Pod) task { return c.disownTask(ctx, o, pod) })
	if !done {
		return status, err
	}
	done, err = forEach(ctx, o.set, l.condemned, func(pod *corev1.Pod) task {
		return c.scaleDownTask(o, pod, l.firstUnavailable)
	})
	if !done {
		return status, err
	}
	if o.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return status, nil
	}
	err = c.deleteOutdated(ctx, o, l.replicas, &status)
	return status, err
}

// createAndRepair works on the pods of slots to be filled. In a parallel set, missing pods are created in a slow start,
// even if others failed: the error of one pod may be permanent, and is no reason to leave slots empty.
func (c *statefulSetController) createAndRepair(
	ctx context.Context, o *observation, replicas []*corev1.Pod,
) (done bool, err error) {
	next := func(pod *corev1.Pod) task { return c.replicaTask(ctx, o, pod) }
	if isOrdered(o.set) {
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
	return len(errs) == 0, joinFailures(errs)
}

// replicaTask returns the task for the pod of a slot to be filled.
func (c *statefulSetController) replicaTask(ctx context.Context, o *observation, pod *corev1.Pod) task {
	next := replicaStep(o.set, pod, o.now)
	switch next {
	case stepRemove:
		if c.takesClaims(o.set, pod) {
			return task{last: true}
		}
		return task{last: true, run: func(ctx context.Context) error { return c.deletePod(ctx, o.set, pod) }}
	case stepCreate:
		return task{last: true, run: func(ctx context.Context) error { return c.createReplica(ctx, o, ordinalOf(pod)) }}
	}
	t := task{last: next == stepWait}
	if pod.Status.Phase == corev1.PodPending {
		t.run = func(ctx context.Context) error {
			if err := c.fixPending(ctx, o.set, pod); err != nil {
				return err
			}
			if next == stepKeep && !(identityMatches(o.set, pod) && storageMatches(o.set, pod)) {
				return c.updatePod(ctx, o.set, pod)
			}
			return nil
		}
		return t
	}
	if next == stepKeep && !c.isConsistent(ctx, o.set, pod) {
		t.run = func(ctx context.Context) error { return c.updatePod(ctx, o.set, pod) }
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
// the set, may be deleted at any time, and the garbage collector would delete the claims. A refused write does not
// prevent the others.
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
	err = joinFailures(atOnce(ctx, fixes))
	return written.Load(), err
}

// disownTask sets the owners of a condemned pod's claims as the policy requires, before the pod
// is deleted.
func (c *statefulSetController) disownTask(ctx context.Context, o *observation, pod *corev1.Pod) task {
	matches, err := c.claimsMatchPolicy(ctx, o.set, pod)
	if err != nil {
		return task{run: func(context.Context) error { return err }}
	}
	if matches {
		return task{}
	}
	return task{run: func(ctx context.Context) error {
		_, err := c.fixClaimOwners(ctx, o.set, pod)
		return err
	}}
}

// scaleDownTask returns the task for a condemned pod.
func (c *statefulSetController) scaleDownTask(o *observation, pod, firstUnavailable *corev1.Pod) task {
	switch condemnedStep(o.set, pod, firstUnavailable, o.now) {
	case stepWait:
		return task{last: true}
	case stepRemove:
		return task{last: true, run: func(ctx context.Context) error { return c.deletePod(ctx, o.set, pod) }}
	}
	return task{}
}

// deleteOutdated deletes the pods that are next in the rolling update. The status no longer counts them
// as current ones.
func (c *statefulSetController) deleteOutdated(
	ctx context.Context, o *observation, replicas []*corev1.Pod, status *appsv1.StatefulSetStatus,
) error {
	victims, err := c.victims(o, replicas)
	if err != nil {
		return err
	}
	for _, pod := range victims {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		klog.FromContext(ctx).V(2).Info("Deleting pod for a rolling update",
			"statefulSet", klog.KObj(o.set), "pod", klog.KObj(pod))
		if err := c.deletePod(ctx, o.set, pod); err != nil {
			return err
		}
		if revisionOf(pod) == o.current.Name {
			status.CurrentReplicas--
		}
	}
	return nil
}

func (c *statefulSetController) victims(o *observation, replicas []*corev1.Pod) ([]*corev1.Pod, error) {
	if !c.config.maxUnavailable {
		return nextVictim(o.set, replicas, o.update.Name, o.now), nil
	}
	limit, err := maxUnavailableOf(o.set)
	if err != nil {
		return nil, err
	}
	unavailable := unavailableOf(o.set, replicas, o.now)
	c.metrics.rolling(o.set, limit, len(unavailable))
	return victimsWithin(o.set, replicas, o.update.Name, limit, unavailable), nil
}
