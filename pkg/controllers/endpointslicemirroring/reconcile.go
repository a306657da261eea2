package endpointslicemirroring

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
)

// reconcile brings the mirrored slices of the Endpoints of one Service to their desired state.
func (c *mirroringController) reconcile(ctx context.Context, id types.NamespacedName) error {
	began := c.Clock.Now()
	defer func() { c.metrics.syncDuration.Observe(c.Clock.Since(began).Seconds()) }()

	endpoints, err := mirrored(id, c.cached)
	if err != nil {
		return err
	}
	list := func() ([]*discoveryv1.EndpointSlice, error) { return c.slices.Of(id.Namespace, id.Name) }
	if endpoints == nil {
		return c.cleanUp(ctx, id, list)
	}
	// The slices are compared within Writing, because mirror tracks those that it leaves as they are: one may be
	// deleted before.
	undone, err := c.written.Writing(id, func() error {
		slices, stale, err := c.written.ListCurrent(ctx, id, list)
		if err != nil {
			return fmt.Errorf("listing EndpointSlices of Endpoints %s: %w", id, err)
		}
		if stale {
			return reconcile.AwaitCache(slicewrites.ErrStaleCache)
		}
		return c.mirror(ctx, id, endpoints, slices)
	})
	if undone {
		c.queue.AddAfter(id, c.config.batchPeriod)
	}
	return err
}

// mirror updates the slices to match the Endpoints.
func (c *mirroringController) mirror(
	ctx context.Context, id types.NamespacedName, endpoints *corev1.Endpoints, slices []*discoveryv1.EndpointSlice,
) error {
	groups, skipped := desiredGroups(endpoints, c.config.maxEndpoints)
	c.warnSkipped(endpoints, skipped)
	c.metrics.addressesSkipped.Observe(float64(skipped.total))

	plan := newPlan(endpoints, groups, slices)
	for _, slice := range plan.unchanged {
		c.written.Found(slice)
	}
	c.metrics.observe(plan)
	c.metrics.totals.set(id, plan.totals(len(groups)))
	c.mirrored.add(id)
	return c.apply(ctx, endpoints, plan, slices)
}

// warnSkipped records events about addresses that are not mirrored, with every reconcile: the
// recorder aggregates equal events.
func (c *mirroringController) warnSkipped(e *corev1.Endpoints, skipped skippedAddresses) {
	if skipped.invalid > 0 {
		c.Record(invalidAddresses(e, skipped.invalid))
	}
	if skipped.total > skipped.invalid {
		c.Record(tooManyAddresses(e, c.config.maxEndpoints, skipped.total))
	}
}
