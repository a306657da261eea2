package daemonset

import (
	"errors"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *daemonSetController) watch(apps appsinformers.Interface, core coreinformers.Interface) error {
	return errors.Join(
		watch.Objects(apps.DaemonSets().Informer(), watch.Funcs[*appsv1.DaemonSet]{
			Add:    c.enqueue,
			Update: c.setUpdated,
			Delete: c.setDeleted,
		}),
		watch.Objects(apps.ControllerRevisions().Informer(), watch.Funcs[*appsv1.ControllerRevision]{
			Add:    c.revisionAdded,
			Update: c.revisionUpdated,
			Delete: func(r *appsv1.ControllerRevision) { c.enqueueOwner(reconcile.Fresh, r) },
		}),
		watch.Objects(core.Pods().Informer(), watch.Funcs[*corev1.Pod]{
			Add:    c.podAdded,
			Update: c.podUpdated,
			Delete: func(p *corev1.Pod) { c.enqueueOwner(reconcile.Fresh, p) },
		}),
		watch.Objects(core.Nodes().Informer(), watch.Funcs[*corev1.Node]{
			Add:    c.nodeAdded,
			Update: c.nodeUpdated,
		}),
	)
}

func (c *daemonSetController) enqueue(lane reconcile.Lane, ds *appsv1.DaemonSet) {
	c.queue.Enqueue(lane, keyOf(ds))
}

func (c *daemonSetController) setUpdated(lane reconcile.Lane, old, ds *appsv1.DaemonSet) {
	if old.UID != ds.UID {
		c.setDeleted(old)
	}
	if c.isEcho(lane, old, ds) {
		return
	}
	c.enqueue(lane, ds)
}

// isEcho reports that an update shows the own status write and nothing else.
func (c *daemonSetController) isEcho(lane reconcile.Lane, old, ds *appsv1.DaemonSet) bool {
	return lane == reconcile.Fresh &&
		old.UID == ds.UID &&
		old.Generation == ds.Generation &&
		(old.DeletionTimestamp == nil) == (ds.DeletionTimestamp == nil) &&
		maps.Equal(old.Annotations, ds.Annotations) &&
		c.writes.IsEcho(keyOf(ds), ds.ResourceVersion)
}

func (c *daemonSetController) setDeleted(ds *appsv1.DaemonSet) {
	c.tracker.Forget(keyOf(ds), ds.UID)
	c.enqueue(reconcile.Fresh, ds)
}

// revisionAdded does nothing for a revision that has an owner: it is the set's own
// creation, or somebody's duplicate, which may stay until something else happens.
func (c *daemonSetController) revisionAdded(lane reconcile.Lane, r *appsv1.ControllerRevision) {
	switch {
	case r.DeletionTimestamp != nil:
		c.enqueueOwner(lane, r)
	case metav1.GetControllerOfNoCopy(r) == nil:
		c.enqueueMatching(lane, r)
	}
}

func (c *daemonSetController) revisionUpdated(lane reconcile.Lane, old, r *appsv1.ControllerRevision) {
	if old.ResourceVersion == r.ResourceVersion {
		return
	}
	c.dependentUpdated(lane, old, r)
}

func (c *daemonSetController) podAdded(lane reconcile.Lane, pod *corev1.Pod) {
	// After a restart of the watch a pod may first be seen while it is being deleted.
	if pod.DeletionTimestamp != nil || metav1.GetControllerOfNoCopy(pod) != nil {
		c.enqueueOwner(lane, pod)
		return
	}
	c.enqueueMatching(lane, pod)
}

func (c *daemonSetController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	if old.ResourceVersion == pod.ResourceVersion || !pods.Matters(old, pod) && targetOf(old) == targetOf(pod) {
		return
	}
	if pod.DeletionTimestamp != nil {
		c.enqueueOwner(reconcile.Fresh, pod)
		return
	}
	c.dependentUpdated(lane, old, pod)
	ds, ok := c.ownerOf(pod)
	if ok && ds.Spec.MinReadySeconds > 0 && !pods.IsReady(old) && pods.IsReady(pod) {
		// One second more, because transition times are whole seconds.
		c.queue.AddAfter(keyOf(ds), time.Duration(ds.Spec.MinReadySeconds+1)*time.Second)
	}
}

// dependentUpdated queues the sets that lost, have or may adopt a pod or revision.
func (c *daemonSetController) dependentUpdated(lane reconcile.Lane, old, dependent metav1.Object) {
	moved := !ownership.SameController(old, dependent)
	if moved {
		c.enqueueOwner(lane, old)
	}
	switch {
	case metav1.GetControllerOfNoCopy(dependent) != nil:
		c.enqueueOwner(lane, dependent)
	case moved || !maps.Equal(old.GetLabels(), dependent.GetLabels()):
		c.enqueueMatching(lane, dependent)
	}
}

func (c *daemonSetController) ownerOf(dependent metav1.Object) (*appsv1.DaemonSet, bool) {
	return ownership.Resolve(metav1.GetControllerOfNoCopy(dependent), daemonSetKind.Kind, c.sets.DaemonSets(dependent.GetNamespace()).Get)
}

func (c *daemonSetController) enqueueOwner(lane reconcile.Lane, dependent metav1.Object) {
	if ds, ok := c.ownerOf(dependent); ok {
		c.enqueue(lane, ds)
	}
}

// enqueueMatching queues every set that may adopt an orphan.
func (c *daemonSetController) enqueueMatching(lane reconcile.Lane, orphan metav1.Object) {
	if len(orphan.GetLabels()) == 0 {
		return
	}
	here, err := c.sets.DaemonSets(orphan.GetNamespace()).List(labels.Everything())
	if err != nil {
		klog.Background().Error(err, "Cannot list DaemonSets", "namespace", orphan.GetNamespace())
		return
	}
	for _, ds := range ownership.Matching(orphan, here, c.selectors) {
		c.enqueue(lane, ds)
	}
}
