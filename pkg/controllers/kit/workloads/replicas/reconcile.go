package replicas

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (e *Engine[T]) reconcile(ctx context.Context, owner T) error {
	// Called before pods are listed: a pod that arrives in between must not count as missing.
	settled := e.owners.Settled(owner)

	selector, err := e.owners.Selectors.Of(owner)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to parse the selector, ignoring the object until it changes", "owner", klog.KObj(owner))
		return nil
	}
	observed, err := e.observe(ctx, owner, selector)
	if err != nil {
		return err
	}
	observed.settled = settled
	var failure error
	if settled && owner.GetDeletionTimestamp() == nil {
		failure = e.manage(ctx, owner, observed.active)
		observed.settled = !reconcile.IsRequeue(failure)
	}
	if ctx.Err() != nil {
		// The requests were cancelled, so their errors say nothing about the pods.
		return errors.Join(context.Cause(ctx), failure)
	}
	if err := e.report(ctx, owner, observed, reportable(failure)); err != nil && (failure == nil || !reconcile.IsExpected(err)) {
		return err
	}
	return failure
}

// reportable returns an error that is to be reported in the status, nil for a reason to requeue the owner.
func reportable(err error) error {
	if reconcile.IsRequeue(err) {
		return nil
	}
	return err
}

// observation is the observed state of one reconcile.
type observation struct {
	// settled is whether the caches show all earlier writes, and it is known by now whether pods can be created or
	// deleted. If not, the status says nothing new of failures.
	settled bool
	// active are the active pods that the owner controls.
	active []*corev1.Pod
	// terminating is the number of its pods that are being deleted and have not finished.
	terminating int32
}

// observe claims the active pods of an owner and counts the terminating ones.
func (e *Engine[T]) observe(ctx context.Context, owner T, selector labels.Selector) (observation, error) {
	candidates, err := e.podIndex.OwnedByOrOrphans(e.kind.GroupVersionKind.Kind, owner)
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
	observed.active, err = owners.ClaimerFor(e.owners, owner, "Pod", selector, e.podControl.PatchFor(owner)).Claim(ctx, active)
	return observed, err
}
