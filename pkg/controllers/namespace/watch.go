package namespace

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues namespaces that are being deleted.
func (c *namespaceController) watch(namespaces cache.SharedIndexInformer) {
	watch.Objects(namespaces, watch.Funcs[*corev1.Namespace]{
		AddOrUpdate: c.observe,
		Delete:      func(ns *corev1.Namespace) { c.memory.forget(ns.Name) },
	})
}

// watchPods enqueues a namespace when the last of the pods is gone that its sweep has left.
func (c *namespaceController) watchPods(pods cache.SharedIndexInformer) {
	watch.ObjectsEvery(pods, 0, watch.Funcs[metav1.Object]{Delete: func(pod metav1.Object) {
		if c.memory.podGone(pod.GetNamespace(), func() int { return c.podsShown(pod.GetNamespace()) }) {
			c.queue.Enqueue(reconcile.Gone(pod), pod.GetNamespace())
		}
	}})
}

// lookAgain is when a namespace is swept again whose pods are in a live list and not in the cache: by now they are
// gone, or the cache is behind.
const lookAgain = time.Second

// awaitPods has watchPods enqueue a namespace. A cache that could not be filled shows nothing.
func (c *namespaceController) awaitPods(ns *corev1.Namespace) {
	if c.memory.awaitPods(ns, func() int { return c.podsShown(ns.Name) }) == 0 && c.podsSynced() {
		c.queue.AddAfter(ns.Name, lookAgain)
	}
}

// podsShown is the number of pods of a namespace in the cache.
func (c *namespaceController) podsShown(namespace string) int {
	shown, err := c.pods.ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return 0 // no informer lacks the index; the namespace is swept once more
	}
	return len(shown)
}

// settleTime is how long a namespace waits after an event before it is swept.
const settleTime = 5 * time.Second

// observe enqueues a namespace that is being deleted, for after its settleTime.
func (c *namespaceController) observe(lane reconcile.Lane, ns *corev1.Namespace) {
	if ns.DeletionTimestamp == nil {
		return
	}
	c.memory.observe(ns, c.Clock.Now())
	c.queue.EnqueueAfter(lane, ns.Name, settleTime)
}
