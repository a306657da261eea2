package tainteviction

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch queues nodes whose taints changed, and pods that came, went, were bound or tolerate
// something else, where that may matter. A resync shows nothing that was not judged before.
func (c *evictionController) watch(podInformer, nodeInformer cache.SharedIndexInformer) {
	watch.ObjectsEvery(podInformer, 0, watch.Funcs[*corev1.Pod]{
		UpdateIf: func(old, pod *corev1.Pod) bool {
			return old.UID != pod.UID || old.Spec.NodeName != pod.Spec.NodeName || pods.IsRestored(old, pod) ||
				!equality.Semantic.DeepEqual(old.Spec.Tolerations, pod.Spec.Tolerations)
		},
		AddOrUpdate: c.enqueue,
		Delete:      func(pod *corev1.Pod) { c.enqueue(reconcile.Gone(pod), pod) },
	})
	watch.ObjectsEvery(nodeInformer, 0, watch.Funcs[*corev1.Node]{
		Add: func(lane reconcile.Lane, node *corev1.Node) { c.nodeQueue.Enqueue(lane, node.Name) },
		Update: func(lane reconcile.Lane, old, node *corev1.Node) {
			if !sameNoExecute(old, node) {
				c.nodeQueue.Enqueue(lane, node.Name)
			}
		},
		Delete: func(node *corev1.Node) { c.nodeQueue.Enqueue(reconcile.Gone(node), node.Name) },
	})
}

func (c *evictionController) enqueue(lane reconcile.Lane, pod *corev1.Pod) {
	if c.mayMatter(pod) {
		c.podQueue.Enqueue(lane, reconcile.KeyOf(pod))
	}
}

// sameNoExecute compares the taints of two states of a node that evict pods, in order. Most updates
// of a node are heartbeats, without any such taint.
func sameNoExecute(old, node *corev1.Node) bool {
	if !evicts(old) && !evicts(node) {
		return true
	}
	return equality.Semantic.DeepEqual(noExecute(old), noExecute(node))
}
