package statefulset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *statefulSetController) watch(podInformer, claims cache.SharedIndexInformer) {
	c.owners.Watch()
	c.podsOfOwners().Watch(podInformer)
	watch.Objects(claims, watch.Funcs[*corev1.PersistentVolumeClaim]{Delete: c.claimDeleted})
}

// sameCurrentRevision reports whether an update may be the echo of a status write. The current
// revision must be the same because pods are counted by it.
func sameCurrentRevision(old, set *appsv1.StatefulSet) bool {
	return old.Status.CurrentRevision == set.Status.CurrentRevision
}

// podsOfOwners declares which events of pods enqueue which sets.
func (c *statefulSetController) podsOfOwners() owners.Dependents[*appsv1.StatefulSet, *corev1.Pod] {
	return owners.Dependents[*appsv1.StatefulSet, *corev1.Pod]{Owners: c.owners, Matters: pods.Matters, OnUpdate: c.podUpdated}
}

// podUpdated enqueues the set of a pod that became ready for when the pod becomes available.
func (c *statefulSetController) podUpdated(set *appsv1.StatefulSet, old, pod *corev1.Pod) {
	if set.Spec.MinReadySeconds > 0 && pods.BecameReady(old, pod) {
		c.owners.EnqueueAfter(set, time.Duration(set.Spec.MinReadySeconds)*time.Second)
	}
}

// claimDeleted enqueues the set to whose slot a claim belonged: the pod of the slot may be
// waiting for its deletion.
func (c *statefulSetController) claimDeleted(claim *corev1.PersistentVolumeClaim) {
	names, ordinal := split(claim.Name)
	// Names of templates and sets may contain dashes, so the name is ambiguous.
	for dash := range len(names) {
		if names[dash] != '-' {
			continue
		}
		template, name := names[:dash], names[dash+1:]
		set, err := c.owners.Cached(types.NamespacedName{Namespace: claim.Namespace, Name: name})
		if err == nil && inRange(set, ordinal) && hasTemplate(set, template) {
			c.owners.Enqueue(reconcile.Fresh, set)
		}
	}
}
