package podgroupprotection

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *protectionController) watch(groups, pods cache.SharedIndexInformer) {
	watch.Objects(groups, watch.Funcs[*schedulingv1alpha2.PodGroup]{
		AddOrUpdate: c.groupSeen,
	})
	watch.Objects(pods, watch.Funcs[*corev1.Pod]{
		Only:   func(pod *corev1.Pod) bool { return index.GroupOf(pod) != "" },
		Add:    c.podSeen,
		Update: c.podUpdated,
		Delete: func(pod *corev1.Pod) { c.podGone(reconcile.Gone(pod), pod) },
	})
}

func (c *protectionController) groupSeen(lane reconcile.Lane, group *schedulingv1alpha2.PodGroup) {
	if finalizer.Blocks(group) {
		c.queue.Enqueue(lane, reconcile.KeyOf(group))
	}
}

func (c *protectionController) podSeen(lane reconcile.Lane, pod *corev1.Pod) {
	if !isActive(pod) {
		c.podGone(lane, pod)
	}
}

func (c *protectionController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	if old.UID != pod.UID { // deleted and recreated, seen as one update
		c.podGone(lane, old)
	}
	c.podSeen(lane, pod)
}

// podGone enqueues the group of a pod that no longer blocks it, if the group is being deleted.
// A group whose deletion the cache does not show yet is enqueued by that event.
func (c *protectionController) podGone(lane reconcile.Lane, pod *corev1.Pod) {
	name := index.GroupOf(pod)
	if name == "" {
		return
	}
	group, err := c.groups.PodGroups(pod.Namespace).Get(name)
	if err != nil || !finalizer.Blocks(group) {
		return
	}
	c.queue.Enqueue(lane, types.NamespacedName{Namespace: pod.Namespace, Name: name})
}
