package storageversiongc

import (
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch queues leases that are deleted or lose their label, and StorageVersions that seem to
// have an entry to remove.
func (c *collector) watch(leases, storageVersions cache.SharedIndexInformer) {
	watch.ObjectsEvery(leases, 0, watch.Funcs[*coordinationv1.Lease]{
		Delete: func(lease *coordinationv1.Lease) { c.leaseQueue.Add(lease.Name) },
	})
	watch.Objects(storageVersions, watch.Funcs[*apiserverinternalv1alpha1.StorageVersion]{
		AddOrUpdate: c.seen,
	})
}

func (c *collector) seen(lane reconcile.Lane, sv *apiserverinternalv1alpha1.StorageVersion) {
	for i := range sv.Status.StorageVersions {
		if !c.servers.cached(sv.Status.StorageVersions[i].APIServerID) {
			c.storageVersionQueue.Enqueue(lane, sv.Name)
			return
		}
	}
}
