package ttlafterfinished

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues candidates. A deleted Job needs no action.
func (c *ttlController) watch(jobs cache.SharedIndexInformer) {
	watch.Objects(jobs, watch.Funcs[*batchv1.Job]{
		AddOrUpdate: c.enqueue,
	})
}

func (c *ttlController) enqueue(lane reconcile.Lane, job *batchv1.Job) {
	if isCandidate(job) {
		c.queue.Enqueue(lane, reconcile.KeyOf(job))
	}
}
