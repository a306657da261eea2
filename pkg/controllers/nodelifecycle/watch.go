package nodelifecycle

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch records heartbeats. It enqueues nodes whose taints or labels are wrong, and pods that were
// bound to a node that is not ready.
func (c *lifecycleController) watch(nodes, pods, leases cache.SharedIndexInformer) {
	watch.Objects(nodes, watch.Funcs[*corev1.Node]{
		AddOrUpdate: c.shown,
		Delete:      c.cluster.delete,
	})
	watch.ObjectsEvery(pods, 0, watch.Funcs[*corev1.Pod]{
		UpdateIf: func(old, pod *corev1.Pod) bool {
			return old.UID != pod.UID || old.Spec.NodeName != pod.Spec.NodeName
		},
		Add: func(lane reconcile.Lane, pod *corev1.Pod) {
			if !lane.IsBacklog() {
				c.bound(pod)
			}
		},
		Update: func(_ reconcile.Lane, _, pod *corev1.Pod) { c.bound(pod) },
	})
	watch.ObjectsEvery(leases, 0, watch.Funcs[*coordinationv1.Lease]{
		AddOrUpdate: c.renewed,
	})
}

func (c *lifecycleController) shown(lane reconcile.Lane, node *corev1.Node) {
	if c.cluster.show(node, c.Clock.Now()) {
		c.markQueue.Add(node.Name)
	}
	c.orderMarkingIfUnknown(node.Name)
	newest, what := c.cluster.newest(node.Name)
	if newest != nil && (!changeOf(newest, what).isEmpty() || missingLabels(newest) != nil) {
		c.nodeQueue.Enqueue(lane, node.Name)
	}
}

// renewed notes the renewal of a Lease. What is replayed from the cache is no renewal: it is noted together with its
// node, or when the instance begins.
func (c *lifecycleController) renewed(lane reconcile.Lane, lease *coordinationv1.Lease) {
	if !lane.IsBacklog() && lease.Namespace == corev1.NamespaceNodeLease {
		c.cluster.renew(lease, c.Clock.Now())
	}
}

// bound queues a pod that was bound to a node that is not ready, but is shown as ready.
func (c *lifecycleController) bound(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" && isShownReady(pod) && isNotReady(c.cluster.readiness(pod.Spec.NodeName)) {
		c.podQueue.Add(reconcile.KeyOf(pod))
	}
}
