package statefulset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	watch.Objects(podInformer, c.namesakeFuncs())
	watch.Objects(claims, c.claimFuncs())
}

// sameCurrentRevision reports whether an update may be the echo of a status write. The current
// revision must be the same because pods are counted by it.
func sameCurrentRevision(old, set *appsv1.StatefulSet) bool {
	return old.Status.CurrentRevision == set.Status.CurrentRevision
}

// podsOfOwners declares which events of pods enqueue which sets.
func (c *statefulSetController) podsOfOwners() owners.Dependents[*appsv1.StatefulSet, *corev1.Pod] {
	return owners.Dependents[*appsv1.StatefulSet, *corev1.Pod]{
		Owners: c.owners, Matters: pods.Matters, OnUpdate: c.podUpdated,
	}
}

// podUpdated enqueues the set of a pod that became ready for when the pod becomes available.
func (c *statefulSetController) podUpdated(set *appsv1.StatefulSet, old, pod *corev1.Pod) {
	if set.Spec.MinReadySeconds > 0 && pods.BecameReady(old, pod) {
		c.owners.EnqueueAfter(set, time.Duration(set.Spec.MinReadySeconds)*time.Second)
	}
}

// namesakeFuncs are the handlers of pods that have the name of a slot, of any owner. One that is not of the set,
// but of a former set of its name for example, keeps its slot empty until it is gone, which is no event of a dependent.
func (c *statefulSetController) namesakeFuncs() watch.Funcs[*corev1.Pod] {
	return watch.Funcs[*corev1.Pod]{
		Only: func(pod *corev1.Pod) bool { return ordinalOf(pod) >= 0 },
		Delete: func(pod *corev1.Pod) {
			name, ordinal := split(pod.Name)
			set, err := c.owners.Cached(types.NamespacedName{Namespace: pod.Namespace, Name: name})
			if err == nil && inRange(set, ordinal) && !metav1.IsControlledBy(pod, set) {
				c.owners.Enqueue(reconcile.Gone(pod), set)
			}
		},
	}
}

// claimFuncs are the handlers of claims. The pod of a slot may be waiting for the end of a claim that belongs to an
// earlier one: it is deleted or, if it has other owners, only loses the reference.
func (c *statefulSetController) claimFuncs() watch.Funcs[*corev1.PersistentVolumeClaim] {
	return watch.Funcs[*corev1.PersistentVolumeClaim]{
		UpdateIf: func(old, claim *corev1.PersistentVolumeClaim) bool {
			return old.UID != claim.UID || !apiequality.Semantic.DeepEqual(old.OwnerReferences, claim.OwnerReferences)
		},
		Update: func(lane reconcile.Lane, _, claim *corev1.PersistentVolumeClaim) {
			c.claimChanged(lane, claim, anySlot)
		},
		Delete: func(claim *corev1.PersistentVolumeClaim) { c.claimChanged(reconcile.Gone(claim), claim, inRange) },
	}
}

// anySlot reports whether an ordinal is that of any slot. A reconcile that removes owners of claims does nothing else,
// see releaseRetained: the events of these claims lead to the next one, also in slots that are not to be filled.
func anySlot(_ *appsv1.StatefulSet, ordinal int) bool { return ordinal >= 0 }

// claimChanged enqueues the set to whose slot a claim belongs, if the slot is one of those that matter.
func (c *statefulSetController) claimChanged(
	lane reconcile.Lane, claim *corev1.PersistentVolumeClaim, matters func(set *appsv1.StatefulSet, ordinal int) bool,
) {
	names, ordinal := split(claim.Name)
	// Names of templates and sets may contain dashes, so the name is ambiguous.
	for dash := range len(names) {
		if names[dash] != '-' {
			continue
		}
		template, name := names[:dash], names[dash+1:]
		set, err := c.owners.Cached(types.NamespacedName{Namespace: claim.Namespace, Name: name})
		if err == nil && matters(set, ordinal) && hasTemplate(set, template) {
			c.owners.Enqueue(lane, set)
		}
	}
}
