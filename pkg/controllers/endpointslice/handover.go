package endpointslice

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
)

// legacy is what an instance leaves to its successor in the same process.
type legacy struct {
	left time.Time
	// unseen are the writes that the caches did not show then. The successor finds the
	// slices of all others in its caches.
	unseen []write
	// triggers keeps the next write to a Service from being annotated with the time the
	// Service was created, which would spoil the metrics of network programming latency.
	triggers *util.TriggerTimeTracker
	// topology keeps hints from being announced as enabled once more.
	topology *topologycache.TopologyCache
}

// inherit takes over what the predecessor left, or makes the beginnings of an instance
// that has none.
func (c *endpointSliceController) inherit() error {
	past, ok := c.predecessor().(legacy)
	if !ok {
		past = legacy{triggers: util.NewTriggerTimeTracker(), topology: topologycache.NewTopologyCache()}
	}
	c.triggers, c.topology.cache = past.triggers, past.topology
	// After a long stop the caches are past every write of ours, and other processes may
	// have undone them.
	if c.clock.Since(past.left) >= staleTimeout {
		return nil
	}
	for _, w := range past.unseen {
		cached, err := c.slices.Of(w.service.Namespace, w.service.Name)
		if err != nil {
			return fmt.Errorf("inheriting the unseen writes to EndpointSlices: %w", err)
		}
		c.written.expect(w, cached)
	}
	return nil
}

// HandOver implements controller.HandsOver.
func (c *endpointSliceController) HandOver() any {
	if c.reconciler == nil {
		return c.predecessor() // Run ended before it began.
	}
	left := legacy{left: c.clock.Now(), triggers: c.triggers, topology: c.topology.cache}
	unseen, err := c.unseen()
	if err != nil {
		klog.Background().Error(err, "handing over without the unseen writes to EndpointSlices")
	}
	left.unseen = unseen
	return left
}

// unseen collects the writes that the caches do not show.
func (c *endpointSliceController) unseen() ([]write, error) {
	services, err := c.services.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	var unseen []write
	for _, service := range services {
		slices, err := c.slices.Of(service.Namespace, service.Name)
		if err != nil {
			return nil, fmt.Errorf("listing EndpointSlices: %w", err)
		}
		name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
		unseen = append(unseen, c.written.unseen(name, slices)...)
	}
	return unseen, nil
}
