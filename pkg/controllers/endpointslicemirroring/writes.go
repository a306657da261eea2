package endpointslicemirroring

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
)

// apply makes the writes of a plan for the slices in the cache, until one fails.
func (c *mirroringController) apply(
	ctx context.Context, endpoints *corev1.Endpoints, p *plan, cached []*discoveryv1.EndpointSlice,
) error {
	client := c.Client.DiscoveryV1().EndpointSlices(endpoints.Namespace)
	for _, slice := range p.create {
		if endpoints.DeletionTimestamp != nil {
			break // what is created now would be deleted with its owner
		}
		created, err := client.Create(controller.OnlyMetadata(ctx), slice, metav1.CreateOptions{})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			// The API server may still know only the namespace of that name which was there before.
			c.queue.AddAfter(reconcile.KeyOf(endpoints), reconcile.RecheckAfter)
			return nil
		}
		if err != nil {
			return fmt.Errorf("creating an EndpointSlice of Endpoints %s/%s: %w", endpoints.Namespace, endpoints.Name, err)
		}
		c.written.Wrote(created)
		c.metrics.changes.WithLabelValues("create").Inc()
		// If somebody deletes it before the cache has shown it, and the watch breaks in between, no event shows either.
		c.queue.AddAfter(reconcile.KeyOf(endpoints), reconcile.RecheckAfter)
	}
	for _, slice := range p.update {
		updated, err := client.Update(controller.OnlyMetadata(ctx), slice, metav1.UpdateOptions{})
		if err != nil {
			if !requests.IsRefusal(err) {
				c.written.Unanswered(slice.Name, cached)
			}
			return fmt.Errorf("updating EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, awaitChange(err))
		}
		c.written.Updated(updated, cached)
		c.metrics.changes.WithLabelValues("update").Inc()
	}
	for _, slice := range p.remove {
		gone, err := c.delete(ctx, reconcile.KeyOf(endpoints), slice)
		if err != nil {
			return fmt.Errorf("deleting EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err)
		}
		if gone {
			c.written.Doubt(slice) // it is read live next time, if the cache still shows it
		} else {
			c.written.Tracker.ExpectDeletion(slice)
		}
		c.metrics.changes.WithLabelValues("delete").Inc()
	}
	return nil
}

// delete deletes a slice of Endpoints as the cache shows it. It reports whether that is said to be gone already: either
// the garbage collector was faster, or an admission webhook only says so. Then no event follows, so the Endpoints are
// reconciled again.
func (c *mirroringController) delete(
	ctx context.Context, id types.NamespacedName, slice *discoveryv1.EndpointSlice,
) (gone bool, err error) {
	err = c.Client.DiscoveryV1().EndpointSlices(slice.Namespace).Delete(ctx, slice.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion},
	})
	if controller.Absent(err) {
		c.queue.AddAfter(id, reconcile.RecheckAfter)
		return true, nil
	}
	return false, awaitChange(err)
}

// awaitChange makes a conflict a reason to wait for the cache: somebody else has changed the slice, or taken it over.
func awaitChange(err error) error {
	if apierrors.IsConflict(err) {
		return reconcile.AwaitCache(err)
	}
	return err
}

// cleanUp deletes the slices of Endpoints that are not mirrored, if live reads confirm that: a
// cache may not show yet what the slices are for. It waits for a cache that does not show all of them: one that it
// shows later is as it was written, and queues nothing.
func (c *mirroringController) cleanUp(
	ctx context.Context, id types.NamespacedName, list func() ([]*discoveryv1.EndpointSlice, error),
) error {
	slices, stale, err := c.written.ListCurrent(ctx, id, list)
	if err != nil {
		return fmt.Errorf("listing EndpointSlices of Endpoints %s: %w", id, err)
	}
	if stale {
		return reconcile.AwaitCache(slicewrites.ErrStaleCache)
	}
	if len(slices) > 0 {
		endpoints, err := mirrored(id, c.live(ctx))
		if err != nil {
			return err
		}
		if endpoints != nil {
			c.queue.AddAfter(id, reconcile.RecheckAfter)
			return nil
		}
	}
	c.written.Forget(id)
	c.metrics.totals.forget(id)
	c.mirrored.forget(id)
	var failed int
	var first error
	for _, slice := range slices {
		_, err := c.delete(ctx, id, slice)
		if err == nil {
			continue
		}
		failed++
		if first == nil {
			first = err
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("error(s) deleting %d/%d EndpointSlices for %s Endpoints, including: %w",
		failed, len(slices), id, first)
}
