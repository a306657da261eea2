package endpointslice

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/endpointslice/util"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
)

// handover is what an instance leaves to its successor in the same process.
type handover struct {
	unseen slicewrites.Unseen
	// triggers keeps the next write to a Service from being annotated with the time the
	// Service was created, which would spoil the metrics of network programming latency.
	triggers *util.TriggerTimeTracker
	pending  *pendingTimes
	// topology keeps hints from being announced as enabled again.
	topology *topologycache.TopologyCache
}

// takeOver takes over what the predecessor left, or starts with empty state if there is none.
func (c *endpointSliceController) takeOver() error {
	left, ok := controller.TakeOver(c.Env, c)
	if !ok {
		left = handover{
			triggers: util.NewTriggerTimeTracker(), pending: newPendingTimes(), topology: topologycache.NewTopologyCache(),
		}
	}
	c.triggers, c.pending, c.topology.cache = left.triggers, left.pending, left.topology
	c.forgetGone()
	return c.written.Expect(left.unseen, c.slices)
}

// forgetGone drops the trigger times and hints of Services that the cache lacks: there is no event for one
// that was deleted since the predecessor stopped. Each Service with hints has trigger times.
func (c *endpointSliceController) forgetGone() {
	for key := range c.triggers.ServiceStates {
		if _, err := c.services.Services(key.Namespace).Get(key.Name); apierrors.IsNotFound(err) {
			c.triggers.DeleteService(key.Namespace, key.Name)
			c.pending.forget(types.NamespacedName(key))
			c.topology.forgetService(types.NamespacedName(key))
		}
	}
}

// HandOver implements controller.HandsOver.
func (c *endpointSliceController) HandOver() handover {
	left := handover{triggers: c.triggers, pending: c.pending, topology: c.topology.cache}
	unseen, err := c.unseen()
	if err != nil {
		klog.Background().Error(err, "handing over without the unseen writes to EndpointSlices")
	}
	left.unseen = unseen
	return left
}

// unseen collects the writes that the caches do not show.
func (c *endpointSliceController) unseen() (slicewrites.Unseen, error) {
	services, err := c.services.List(labels.Everything())
	if err != nil {
		return slicewrites.Unseen{}, fmt.Errorf("listing Services: %w", err)
	}
	names := make([]types.NamespacedName, len(services))
	for i, service := range services {
		names[i] = reconcile.KeyOf(service)
	}
	return c.written.Unseen(names, c.slices)
}
