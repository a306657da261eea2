package replicas

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (e *Engine[T]) reconcile(ctx context.Context, key types.NamespacedName) error {
	owner, err := e.current(key)
	if apierrors.IsNotFound(err) {
		e.tracker.Forget(key, "")
		e.selectors.Forget(key)
		return nil
	}
	if reconcile.IsRequeue(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", e.kind.GroupVersionKind.Kind, key, err)
	}
	owner = e.newest(key, owner)
	mayAct := e.settled(key, owner) && owner.GetDeletionTimestamp() == nil

	selector, err := e.selectors.Of(owner)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Selector cannot be parsed, nothing is done until it changes", "owner", klog.KObj(owner))
		return nil
	}
	observed, err := e.observe(ctx, owner, selector)
	if err != nil {
		return err
	}
	var failure error
	if mayAct {
		failure = e.manage(ctx, owner, observed.active)
	}
	if ctx.Err() != nil {
		// Cut off: what failed says nothing about the pods.
		return errors.Join(context.Cause(ctx), failure)
	}
	if err := e.report(ctx, owner, observed, failure); err != nil {
		return err
	}
	return failure
}

// newest returns what the last status write made of an owner while the cache does not
// show it: writing the status of an older one would be a conflict.
func (e *Engine[T]) newest(key types.NamespacedName, cached T) T {
	item, _, err := e.written.GetByKey(key.String())
	if written, ok := item.(T); ok && err == nil && written.GetUID() == cached.GetUID() {
		return written
	}
	return cached
}

// current returns the owner as it is cached. It fails while the caches are older than what
// was written for the owner, if the options require it.
func (e *Engine[T]) current(key types.NamespacedName) (T, error) {
	get := func() (T, error) { return e.kind.Cached(key.Namespace, key.Name) }
	if !e.options.RequireFresh {
		return get()
	}
	owner, err := expectations.Read(e.tracker, key, get)
	var stale *expectations.StaleError
	if !errors.As(err, &stale) {
		return owner, err
	}
	if e.options.OnStale != nil {
		e.options.OnStale(stale.Resource)
	}
	return owner, reconcile.Requeue(err)
}

// settled reports that the caches show what was done for the owner before, so that pods
// may be created and deleted. It must be asked before pods are listed.
func (e *Engine[T]) settled(key types.NamespacedName, owner T) bool {
	settled, retry := e.tracker.Settled(key, owner.GetUID())
	if retry > 0 {
		e.queue.AddAfter(key, retry)
	}
	return settled
}

// observation is what a reconcile found of the pods of an owner.
type observation struct {
	// active are the active pods that the owner controls.
	active []*corev1.Pod
	// terminating is the number of its pods that are being deleted and have not finished.
	terminating int32
}

// observe claims the active pods of an owner and counts the terminating ones.
func (e *Engine[T]) observe(ctx context.Context, owner T, selector labels.Selector) (observation, error) {
	candidates, err := e.pods.OwnedByOrOrphans(e.kind.GroupVersionKind.Kind, owner)
	if err != nil {
		return observation{}, err
	}
	var observed observation
	active := candidates[:0]
	for _, pod := range candidates {
		switch {
		case pods.IsActive(pod):
			active = append(active, pod)
		case pods.IsTerminating(pod) && metav1.IsControlledBy(pod, owner) && selector.Matches(labels.Set(pod.Labels)):
			observed.terminating++
		}
	}
	observed.active, err = e.claimer(owner, selector).Claim(ctx, active)
	return observed, err
}

func (e *Engine[T]) claimer(owner T, selector labels.Selector) ownership.Claimer[*corev1.Pod] {
	return ownership.Claimer[*corev1.Pod]{
		Owner:     owner,
		OwnerKind: e.kind.GroupVersionKind,
		Kind:      "Pod",
		Selector:  selector,
		CanAdopt: ownership.Recheck(owner, e.kind.GroupVersionKind.Kind, func(ctx context.Context) (T, error) {
			return e.kind.Live(ctx, owner.GetNamespace(), owner.GetName())
		}),
		Patch: e.control.PatchFor(owner),
	}
}
