package statefulset

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *statefulSetController) watch(sets, podInformer, claims cache.SharedIndexInformer) error {
	if err := watch.Objects(sets, watch.Funcs[*appsv1.StatefulSet]{
		Add:    func(lane reconcile.Lane, set *appsv1.StatefulSet) { c.queue.Enqueue(lane, keyOf(set)) },
		Update: c.setUpdated,
		Delete: func(set *appsv1.StatefulSet) { c.queue.Enqueue(reconcile.Fresh, keyOf(set)) },
	}); err != nil {
		return err
	}
	if err := watch.Objects(podInformer, watch.Funcs[*corev1.Pod]{
		Add:    c.podAdded,
		Update: c.podUpdated,
		Delete: func(pod *corev1.Pod) { c.enqueueOwner(reconcile.Fresh, pod) },
	}); err != nil {
		return err
	}
	return watch.Objects(claims, watch.Funcs[*corev1.PersistentVolumeClaim]{Delete: c.claimDeleted})
}

func (c *statefulSetController) setUpdated(lane reconcile.Lane, old, set *appsv1.StatefulSet) {
	if !c.isEcho(lane, old, set) {
		c.queue.Enqueue(lane, keyOf(set))
	}
}

// isEcho reports that an update shows the own status write and nothing else. Resyncs are
// never echoes: they are there to look again.
func (c *statefulSetController) isEcho(lane reconcile.Lane, old, set *appsv1.StatefulSet) bool {
	return lane == reconcile.Fresh &&
		old.UID == set.UID &&
		old.Generation == set.Generation &&
		(old.DeletionTimestamp == nil) == (set.DeletionTimestamp == nil) &&
		old.Status.CurrentRevision == set.Status.CurrentRevision &&
		c.statusWrites.IsEcho(keyOf(set), set.ResourceVersion)
}

func (c *statefulSetController) podAdded(lane reconcile.Lane, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil || metav1.GetControllerOfNoCopy(pod) != nil {
		c.enqueueOwner(lane, pod)
		return
	}
	c.enqueueMatching(lane, pod)
}

func (c *statefulSetController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	if old.ResourceVersion == pod.ResourceVersion || !pods.Matters(old, pod) {
		return
	}
	sameController := ownership.SameController(old, pod)
	if !sameController {
		c.enqueueOwner(lane, old)
	}
	if metav1.GetControllerOfNoCopy(pod) == nil {
		if !sameController || !maps.Equal(old.Labels, pod.Labels) {
			c.enqueueMatching(lane, pod)
		}
		return
	}
	set, ok := c.ownerOf(pod)
	if !ok {
		return
	}
	c.queue.Enqueue(lane, keyOf(set))
	if set.Spec.MinReadySeconds > 0 && !pods.IsReady(old) && pods.IsReady(pod) {
		c.queue.AddAfter(keyOf(set), time.Duration(set.Spec.MinReadySeconds)*time.Second)
	}
}

// enqueueOwner queues the set that controls a pod, if there is one.
func (c *statefulSetController) enqueueOwner(lane reconcile.Lane, pod *corev1.Pod) {
	if set, ok := c.ownerOf(pod); ok {
		c.queue.Enqueue(lane, keyOf(set))
	}
}

func (c *statefulSetController) ownerOf(pod *corev1.Pod) (*appsv1.StatefulSet, bool) {
	return ownership.Resolve(metav1.GetControllerOfNoCopy(pod), setKind.Kind, func(name string) (*appsv1.StatefulSet, error) {
		return c.sets.StatefulSets(pod.Namespace).Get(name)
	})
}

// enqueueMatching queues every set that might adopt an orphan.
func (c *statefulSetController) enqueueMatching(lane reconcile.Lane, orphan *corev1.Pod) {
	if len(orphan.Labels) == 0 {
		return
	}
	sets, err := c.sets.StatefulSets(orphan.Namespace).List(labels.Everything())
	if err != nil {
		return // the cache of a synced informer has every namespace
	}
	for _, set := range ownership.Matching(orphan, sets, c.selectors) {
		c.queue.Enqueue(lane, keyOf(set))
	}
}

// claimDeleted queues the set whose slot a claim was for: the pod of the slot may be
// waiting for the claim to go.
func (c *statefulSetController) claimDeleted(claim *corev1.PersistentVolumeClaim) {
	names, ordinal := split(claim.Name)
	// Names of templates and sets may have dashes, so there is more than one way to read it.
	for dash := range len(names) {
		if names[dash] != '-' {
			continue
		}
		template, name := names[:dash], names[dash+1:]
		set, err := c.sets.StatefulSets(claim.Namespace).Get(name)
		if err == nil && inRange(set, ordinal) && hasTemplate(set, template) {
			c.queue.Enqueue(reconcile.Fresh, keyOf(set))
		}
	}
}
