package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/podchanges"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *endpointSliceController) watch() {
	core, slices := c.Informers.Core().V1(), c.Informers.Discovery().V1().EndpointSlices()
	watch.Objects(core.Services().Informer(), podchanges.ServiceFuncs(c.serviceQueue))
	watch.Objects(core.Pods().Informer(), podchanges.Funcs(c.podQueue, c.selecting))
	watch.Objects(slices.Informer(), c.sliceFuncs())
	watch.Objects(core.Nodes().Informer(), c.nodeFuncs())
}

// sliceFuncs queue the Service of a slice that is not as this controller left it, and of
// one that a reconcile waits for. Replayed slices are tracked instead: their Services are
// replayed too.
func (c *endpointSliceController) sliceFuncs() watch.Funcs[*discoveryv1.EndpointSlice] {
	return watch.Funcs[*discoveryv1.EndpointSlice]{
		Add: func(lane reconcile.Lane, slice *discoveryv1.EndpointSlice) {
			if lane.IsBacklog() {
				c.written.Found(slice)
				return
			}
			if c.written.Differs(slice) {
				c.queueServiceOf(slice)
			}
			c.resumeServiceOf(slice)
		},
		Update: func(_ reconcile.Lane, old, slice *discoveryv1.EndpointSlice) {
			for _, affected := range c.written.Changed(old, slice) {
				c.queueServiceOf(affected)
			}
			c.resumeServiceOf(slice)
		},
		Delete: func(slice *discoveryv1.EndpointSlice) {
			if c.written.DeletedByOthers(slice) {
				c.queueServiceOf(slice)
			}
			c.resumeServiceOf(slice)
		},
	}
}

// resumeServiceOf queues the Service of a slice if the cache was stale when it was last
// reconciled. Endpoints under churn would otherwise wait for the retry, a second or more.
func (c *endpointSliceController) resumeServiceOf(slice *discoveryv1.EndpointSlice) {
	if service, ok := c.written.Awaited(slice); ok {
		c.serviceQueue.Add(service)
	}
}

func (c *endpointSliceController) queueServiceOf(slice *discoveryv1.EndpointSlice) {
	service, err := slicewrites.ServiceOf(slice)
	if err != nil {
		klog.Background().Error(err, "cannot find the Service of an EndpointSlice", "endpointSlice", klog.KObj(slice))
		return
	}
	c.serviceQueue.AddAfter(service, sliceDelay(c.config.batchPeriod))
}

// nodeFuncs queue the one key of the topology loop, and the pods on a node whose zone was not known. Replayed
// nodes are left out: begin examines all of them before the loops start.
func (c *endpointSliceController) nodeFuncs() watch.Funcs[*corev1.Node] {
	return watch.Funcs[*corev1.Node]{
		Add: func(lane reconcile.Lane, node *corev1.Node) {
			if !lane.IsBacklog() {
				c.topologyQueue.Add(topologyKey)
				c.queuePodsOn(lane, node)
			}
		},
		Update: func(lane reconcile.Lane, old, node *corev1.Node) {
			if spreadsDifferently(old, node) {
				c.topologyQueue.Enqueue(lane, topologyKey)
			}
			if zoneOf(old) != zoneOf(node) {
				c.queuePodsOn(lane, node)
			}
		},
		Delete: func(*corev1.Node) { c.topologyQueue.Add(topologyKey) },
	}
}

// queuePodsOn queues the pods on a node that Services select, as if they had changed: their endpoints have the zone of
// the node.
func (c *endpointSliceController) queuePodsOn(lane reconcile.Lane, node *corev1.Node) {
	there, err := c.podsOn.On(node.Name)
	if err != nil {
		klog.Background().Error(err, "cannot find the pods on a node", "node", klog.KObj(node))
	}
	for _, pod := range there {
		if c.selecting.Select(pod) {
			c.podQueue.Enqueue(lane, podchanges.Between(nil, pod))
		}
	}
}
