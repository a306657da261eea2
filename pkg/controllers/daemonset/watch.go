package daemonset

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *daemonSetController) watch(apps appsinformers.Interface, core coreinformers.Interface) {
	c.owners.Watch()
	c.revisionsOfOwners().Watch(apps.ControllerRevisions().Informer())
	c.podsOfOwners().Watch(core.Pods().Informer())
	watch.Objects(core.Nodes().Informer(), watch.Funcs[*corev1.Node]{
		Add:    c.nodeAdded,
		Update: c.nodeUpdated,
		Delete: c.nodeDeleted,
	})
}

// mayBeEcho reports whether an update may be the echo of a status write. The annotations must be equal because one of
// them is the template generation, and the misscheduled pods because changes of nodes are mapped to sets by their
// number in the cache.
func mayBeEcho(old, ds *appsv1.DaemonSet) bool {
	return maps.Equal(old.Annotations, ds.Annotations) && old.Status.NumberMisscheduled == ds.Status.NumberMisscheduled
}

// revisionsOfOwners declares which events of revisions enqueue which sets. The addition of a
// revision that has an owner is ignored: it was created by this controller, or is a duplicate
// that may stay until the next reconcile.
func (c *daemonSetController) revisionsOfOwners() owners.Dependents[*appsv1.DaemonSet, *appsv1.ControllerRevision] {
	return owners.Dependents[*appsv1.DaemonSet, *appsv1.ControllerRevision]{Owners: c.owners, IgnoreOwnedAdds: true}
}

// podsOfOwners declares which events of pods enqueue which sets.
func (c *daemonSetController) podsOfOwners() owners.Dependents[*appsv1.DaemonSet, *corev1.Pod] {
	return owners.Dependents[*appsv1.DaemonSet, *corev1.Pod]{
		Owners:   c.owners,
		Matters:  func(old, pod *corev1.Pod) bool { return pods.Matters(old, pod) || targetOf(old) != targetOf(pod) },
		OnUpdate: c.podUpdated,
	}
}

// podUpdated enqueues the set of a pod that became ready for when the pod becomes available,
// plus one second because transition times have a resolution of one second.
func (c *daemonSetController) podUpdated(ds *appsv1.DaemonSet, old, pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil && ds.Spec.MinReadySeconds > 0 && pods.BecameReady(old, pod) {
		c.owners.EnqueueAfter(ds, (time.Duration(ds.Spec.MinReadySeconds)+1)*time.Second)
	}
}
