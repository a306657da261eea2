package replicas

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/pods"
)

// podsOfOwners declares which events of pods enqueue which owners.
func (e *Engine[T]) podsOfOwners() owners.Dependents[T, *corev1.Pod] {
	return owners.Dependents[T, *corev1.Pod]{Owners: e.owners, Matters: pods.Matters, OnUpdate: e.podUpdated}
}

// podUpdated enqueues the owner of a pod that became ready for the time when the pod becomes
// available.
func (e *Engine[T]) podUpdated(owner T, old, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return // it no longer counts
	}
	if minReady := e.kind.Spec(owner).MinReadySeconds; minReady > 0 && pods.BecameReady(old, pod) {
		e.owners.EnqueueAfter(owner, time.Duration(minReady)*time.Second)
	}
}
