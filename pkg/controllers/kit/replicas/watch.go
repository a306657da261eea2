package replicas

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (e *Engine[T]) watch(podInformer cache.SharedIndexInformer) error {
	if err := watch.Objects(e.kind.Informer, watch.Funcs[T]{
		Add:    func(lane reconcile.Lane, owner T) { e.queue.Enqueue(lane, keyOf(owner)) },
		Update: e.ownerUpdated,
		Delete: e.ownerDeleted,
	}); err != nil {
		return err
	}
	return watch.Objects(podInformer, watch.Funcs[*corev1.Pod]{
		Add:    e.podAdded,
		Update: e.podUpdated,
		Delete: e.podGone,
	})
}

func (e *Engine[T]) ownerUpdated(lane reconcile.Lane, old, owner T) {
	if old.GetUID() != owner.GetUID() {
		e.ownerDeleted(old)
	}
	if e.isEcho(lane, old, owner) {
		return
	}
	e.queue.Enqueue(lane, keyOf(owner))
}

// isEcho reports that an update shows the own status write and nothing else. Resyncs
// are never echoes: they are there to look again.
func (e *Engine[T]) isEcho(lane reconcile.Lane, old, owner T) bool {
	return lane == reconcile.Fresh &&
		old.GetUID() == owner.GetUID() &&
		old.GetGeneration() == owner.GetGeneration() &&
		(old.GetDeletionTimestamp() == nil) == (owner.GetDeletionTimestamp() == nil) &&
		e.writes.IsEcho(keyOf(owner), owner.GetResourceVersion())
}

func (e *Engine[T]) ownerDeleted(owner T) {
	e.tracker.Forget(keyOf(owner), owner.GetUID())
	e.queue.Enqueue(reconcile.Fresh, keyOf(owner))
}

func (e *Engine[T]) podAdded(lane reconcile.Lane, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		// After a restart of the watch a pod may first be seen while it is being deleted.
		e.enqueueOwner(lane, pod)
		return
	}
	if metav1.GetControllerOfNoCopy(pod) != nil {
		e.enqueueOwner(lane, pod)
		return
	}
	e.enqueueMatching(lane, pod)
}

func (e *Engine[T]) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	if old.ResourceVersion == pod.ResourceVersion || !pods.Matters(old, pod) {
		return
	}
	sameLabels := maps.Equal(old.Labels, pod.Labels)
	if pod.DeletionTimestamp != nil {
		e.podGone(pod)
		if !sameLabels {
			e.podGone(old)
		}
		return
	}
	sameController := ownership.SameController(old, pod)
	if !sameController {
		e.enqueueOwner(lane, old)
	}
	if metav1.GetControllerOfNoCopy(pod) == nil {
		if !sameLabels || !sameController {
			e.enqueueMatching(lane, pod)
		}
		return
	}
	owner, ok := e.ownerOf(pod)
	if !ok {
		return
	}
	e.queue.Enqueue(lane, keyOf(owner))
	if minReady := e.kind.Spec(owner).MinReadySeconds; minReady > 0 && !pods.IsReady(old) && pods.IsReady(pod) {
		e.queue.AddAfter(keyOf(owner), time.Duration(minReady)*time.Second)
	}
}

func (e *Engine[T]) podGone(pod *corev1.Pod) { e.enqueueOwner(reconcile.Fresh, pod) }

// enqueueOwner queues the owner that controls a pod, if it is of the kind and exists.
func (e *Engine[T]) enqueueOwner(lane reconcile.Lane, pod *corev1.Pod) {
	if owner, ok := e.ownerOf(pod); ok {
		e.queue.Enqueue(lane, keyOf(owner))
	}
}

func (e *Engine[T]) ownerOf(pod *corev1.Pod) (T, bool) {
	return ownership.Resolve(metav1.GetControllerOfNoCopy(pod), e.kind.GroupVersionKind.Kind, func(name string) (T, error) {
		return e.kind.Cached(pod.Namespace, name)
	})
}

// enqueueMatching queues every owner that might adopt an orphan.
func (e *Engine[T]) enqueueMatching(lane reconcile.Lane, orphan *corev1.Pod) {
	if len(orphan.Labels) == 0 {
		return
	}
	owners, err := e.kind.CachedIn(orphan.Namespace)
	if err != nil {
		return // the cache of a synced informer has every namespace
	}
	for _, owner := range ownership.Matching(orphan, owners, e.selectors) {
		e.queue.Enqueue(lane, keyOf(owner))
	}
}
