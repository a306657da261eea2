package resourcepoolstatusrequest

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch queues requests that are not answered: their own changes, and those of slices of their
// driver, which may complete a pool.
func (c *statusController) watch(requests, slices cache.SharedIndexInformer) {
	watch.Objects(requests, watch.Funcs[*statusRequest]{
		AddOrUpdate: c.seen,
		Delete:      func(request *statusRequest) { c.written.Forget(request) },
	})
	watch.ObjectsEvery(slices, 0, watch.Funcs[*resourcev1.ResourceSlice]{
		Add: c.sliceChanged,
		Update: func(lane reconcile.Lane, old, slice *resourcev1.ResourceSlice) {
			if old.Spec.Driver != slice.Spec.Driver { // deleted and recreated, seen as one update
				c.sliceChanged(lane, old)
			}
			c.sliceChanged(lane, slice)
		},
		Delete: func(slice *resourcev1.ResourceSlice) { c.sliceChanged(reconcile.Gone(slice), slice) },
	})
}

func (c *statusController) seen(lane reconcile.Lane, request *statusRequest) {
	if request.Status != nil {
		c.written.Forget(request)
		return
	}
	c.queue.Enqueue(lane, request.Name)
}

func (c *statusController) sliceChanged(lane reconcile.Lane, slice *resourcev1.ResourceSlice) {
	names, err := c.pending.IndexKeys(pendingIndex, slice.Spec.Driver)
	if err != nil {
		return // without the index the controller was not built
	}
	for _, name := range names { // the key of what has no namespace is its name
		c.queue.Enqueue(lane, name)
	}
}
