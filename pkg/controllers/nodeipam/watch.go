package nodeipam

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch records what nodes hold as soon as it is seen, before any key is reconciled. A block
// is freed by the deletion of a node, and by nothing else that happens to it. That a list after a break of the watch
// lacks a node is no proof of its deletion.
func (c *ipamController) watch(nodes cache.SharedIndexInformer) {
	watch.Objects(nodes, watch.Funcs[*corev1.Node]{
		Add:    c.seen,
		Update: c.updated,
		Delete: func(node *corev1.Node) { c.ranges.gone(incarnationOf(node)) },
		Missed: c.missed,
	})
}

// missed keeps what a node holds that a list lacked, and queues the node, which is then read live.
func (c *ipamController) missed(node *corev1.Node) {
	c.ranges.lost(incarnationOf(node))
	c.queue.Enqueue(reconcile.Gone(node), node.Name)
}

// seen records the podCIDRs of a node, and queues one that has none, or strange ones.
func (c *ipamController) seen(lane reconcile.Lane, node *corev1.Node) {
	if len(node.Spec.PodCIDRs) == 0 && c.ranges.settled(incarnationOf(node), c.Clock.Now()) {
		return
	}
	if strange := c.ranges.observe(node); len(strange) > 0 || len(node.Spec.PodCIDRs) == 0 {
		c.queue.Enqueue(lane, node.Name)
	}
}

func (c *ipamController) updated(lane reconcile.Lane, old, node *corev1.Node) {
	switch {
	case old.UID != node.UID: // deleted and recreated, seen as one update
		c.ranges.observe(node) // first, so that what both have is never free
		c.ranges.gone(incarnationOf(old))
	case len(node.Spec.PodCIDRs) > 0 && slices.Equal(old.Spec.PodCIDRs, node.Spec.PodCIDRs):
		return
	case len(node.Spec.PodCIDRs) == 0 && len(old.Spec.PodCIDRs) > 0:
		c.ranges.lost(incarnationOf(node))
	}
	c.seen(lane, node)
}
