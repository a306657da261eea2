package endpointslicemirroring

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/slicewrites"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *mirroringController) watch(services, endpoints, slices cache.SharedIndexInformer) {
	watch.Objects(services, c.serviceFuncs())
	watch.Objects(endpoints, c.endpointsFuncs())
	watch.Objects(slices, c.sliceFuncs())
}

// serviceFuncs queue Services without selector, and those that gain or lose theirs.
func (c *mirroringController) serviceFuncs() watch.Funcs[*corev1.Service] {
	return watch.Funcs[*corev1.Service]{
		Add: func(lane reconcile.Lane, s *corev1.Service) {
			if s.Spec.Selector == nil {
				c.queue.Enqueue(lane, reconcile.KeyOf(s))
			}
		},
		Update: func(lane reconcile.Lane, old, s *corev1.Service) {
			if (old.Spec.Selector == nil) != (s.Spec.Selector == nil) {
				c.queue.Enqueue(lane, reconcile.KeyOf(s))
			}
		},
		Delete: func(s *corev1.Service) {
			if s.Spec.Selector == nil {
				c.queue.Add(reconcile.KeyOf(s))
			}
		},
	}
}

// endpointsFuncs queue Endpoints that may be mirrored, and those that cease to be. Those of
// Services with selectors are among them: whether they are mirrored is known only when
// both caches have been read, and costs no more than that.
func (c *mirroringController) endpointsFuncs() watch.Funcs[*corev1.Endpoints] {
	return watch.Funcs[*corev1.Endpoints]{
		Add: func(lane reconcile.Lane, e *corev1.Endpoints) {
			if mirrorable(e) {
				c.queue.Enqueue(lane, reconcile.KeyOf(e))
			}
		},
		Update: func(lane reconcile.Lane, old, e *corev1.Endpoints) {
			if mirrorable(old) || mirrorable(e) {
				c.queue.Enqueue(lane, reconcile.KeyOf(e))
			}
		},
		Delete: func(e *corev1.Endpoints) {
			if mirrorable(e) {
				c.queue.Add(reconcile.KeyOf(e))
			}
		},
	}
}

// sliceFuncs queue the Endpoints of a slice that is not as this controller left it, and
// those that a reconcile waits for.
func (c *mirroringController) sliceFuncs() watch.Funcs[*discoveryv1.EndpointSlice] {
	return watch.Funcs[*discoveryv1.EndpointSlice]{
		Add: func(lane reconcile.Lane, slice *discoveryv1.EndpointSlice) {
			if c.written.Differs(slice) {
				c.enqueue(lane, slice)
			}
			c.resume(slice)
		},
		Update: func(lane reconcile.Lane, old, slice *discoveryv1.EndpointSlice) {
			for _, affected := range c.written.Changed(old, slice) {
				c.enqueue(lane, affected)
			}
			c.resume(slice)
		},
		Delete: func(slice *discoveryv1.EndpointSlice) {
			if c.written.DeletedByOthers(slice) {
				c.enqueue(reconcile.Gone(slice), slice)
			}
			c.resume(slice)
		},
	}
}

// enqueue queues the Endpoints of a slice, after the batch period if there is one.
func (c *mirroringController) enqueue(lane reconcile.Lane, slice *discoveryv1.EndpointSlice) {
	id, err := slicewrites.ServiceOf(slice)
	if err != nil {
		klog.Background().Error(err, "cannot find the Endpoints of an EndpointSlice", "endpointSlice", klog.KObj(slice))
		return
	}
	c.queue.EnqueueAfter(lane, id, c.config.batchPeriod)
}

// resume queues the Endpoints of a slice if the cache was stale when they were last
// reconciled. They would otherwise wait for the retry, a second or more.
func (c *mirroringController) resume(slice *discoveryv1.EndpointSlice) {
	if id, ok := c.written.Awaited(slice); ok {
		c.queue.Add(id)
	}
}
