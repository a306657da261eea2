package endpointslice

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/endpointslice"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/podchanges"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
)

// begin does what has to be done before the first Service is reconciled.
func (c *endpointSliceController) begin(ctx context.Context) error {
	if err := c.takeOver(); err != nil {
		return err
	}
	c.reconciler = endpointslice.NewReconciler(sliceClient{c.Client, c.cached, c}, c.confirmed,
		c.config.maxEndpoints, c.written.Tracker, c.topology.cache, c.Events, managedBy,
		endpointslice.WithPreferSameTrafficDistributionEnabled(c.config.preferSame))
	return c.topology.refresh(ctx)
}

// reconcile brings the slices of one Service to their desired state.
func (c *endpointSliceController) reconcile(ctx context.Context, key types.NamespacedName) error {
	err := c.sync(ctx, key)
	countSync(err)
	if errors.Is(err, slicewrites.ErrStaleCache) {
		return reconcile.AwaitCache(err)
	}
	return err
}

func (c *endpointSliceController) sync(ctx context.Context, key types.NamespacedName) error {
	service, found, err := reconcile.Found(c.services.Services(key.Namespace).Get(key.Name))
	switch {
	case err != nil:
		return err
	case !found:
		c.forget(key)
		return nil
	case !podchanges.Selects(service):
		return nil
	}

	pods, err := c.selected.By(key.Namespace, service.Spec.Selector)
	if err != nil {
		c.Record(failedListPods(service, err))
		return fmt.Errorf("listing pods of Service %s: %w", key, err)
	}
	// The slices are listed within Writing, because write tracks them: one may be deleted before.
	undone, err := c.written.Writing(key, func() error { return c.write(ctx, key, service, pods) })
	if undone {
		c.serviceQueue.AddAfter(key, sliceDelay(c.config.batchPeriod))
	}
	return err
}

// write has the library write the slices of a Service that selects these pods, unless that is known to have nothing to
// write.
func (c *endpointSliceController) write(
	ctx context.Context, key types.NamespacedName, service *corev1.Service, pods []*corev1.Pod,
) error {
	slices, stale, err := c.written.ListCurrent(ctx, key, func() ([]*discoveryv1.EndpointSlice, error) {
		return c.slices.Of(key.Namespace, key.Name)
	})
	if err != nil {
		c.Record(failedListSlices(service, err))
		return fmt.Errorf("listing EndpointSlices of Service %s: %w", key, err)
	}
	if stale {
		return slicewrites.ErrStaleCache
	}

	// Computing the time also remembers it, so it comes before the decision to skip.
	triggerTime := c.triggers.ComputeEndpointLastChangeTriggerTime(key.Namespace, service, pods)
	digest := c.inputs.digest(service, pods, slices, c.topology.epoch.Load())
	if c.inputs.upToDate(key, digest) {
		c.pending.forget(key) // what was to be written was undone
		return nil
	}
	triggerTime = c.pending.earliest(key, triggerTime)
	defer c.pending.conclude(key, triggerTime)
	if err := c.confirmed.confirm(ctx, pods); err != nil {
		c.pending.noteFailure(key)
		return c.failed(ctx, service, err)
	}
	for _, slice := range slices {
		c.written.Found(slice)
	}
	err = c.reconciler.Reconcile(klog.FromContext(ctx), service, pods, slicewrites.Sortable(slices), triggerTime)
	created := c.inputs.takeCreate(key) // also if nothing shows it any more, because the slice was deleted
	if err != nil {
		return c.failed(ctx, service, err)
	}
	if !created && c.written.Shown(key, slices) {
		c.inputs.markUpToDate(key, digest)
	}
	return nil
}

// failed reports an error of an attempt to update the slices of a Service.
func (c *endpointSliceController) failed(ctx context.Context, service *corev1.Service, err error) error {
	c.RecordFailure(ctx, failedUpdateSlices(service, err))
	return fmt.Errorf("updating EndpointSlices of Service %s/%s: %w", service.Namespace, service.Name, err)
}

// wrote implements writeObserver.
func (c *endpointSliceController) wrote(answer *discoveryv1.EndpointSlice) { c.written.Wrote(answer) }

// unanswered implements writeObserver.
func (c *endpointSliceController) unanswered(slice *discoveryv1.EndpointSlice) {
	c.written.Doubt(slice)
}

// created notes the outcome of the creation of a slice. It requeues the Service if that succeeded: if somebody deletes
// the slice before the cache has shown it, and the watch breaks in between, no event shows either. So it does if the
// creation was refused because of the namespace: if that was recreated, the API server may still know only the deleted
// one.
func (c *endpointSliceController) created(slice *discoveryv1.EndpointSlice, err error) {
	key := serviceOf(slice)
	c.inputs.noteCreate(key)
	if err != nil {
		c.pending.noteFailure(key)
	}
	if err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		c.serviceQueue.AddAfter(key, reconcile.RecheckAfter)
	}
}

// updateFailed implements writeObserver.
func (c *endpointSliceController) updateFailed(slice *discoveryv1.EndpointSlice) {
	c.pending.noteFailure(serviceOf(slice))
}

// serviceOf returns the Service of a slice that the library writes, which has the label.
func serviceOf(slice *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
}

// reconcilePodChange queues the Services that a change of a pod concerns.
func (c *endpointSliceController) reconcilePodChange(_ context.Context, change podchanges.Change) error {
	return change.Enqueue(c.selecting, c.serviceQueue, c.config.batchPeriod)
}

// forget drops what is remembered of a Service that is gone.
func (c *endpointSliceController) forget(key types.NamespacedName) {
	c.triggers.DeleteService(key.Namespace, key.Name)
	c.pending.forget(key)
	c.reconciler.DeleteService(key.Namespace, key.Name)
	c.written.Forget(key)
	c.topology.forgetService(key)
	c.inputs.forget(key)
}
