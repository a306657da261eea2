package statefulset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// step is what is next for a pod.
type step string

const (
	// stepKeep leaves the pod and goes on with the next one.
	stepKeep step = "keep"
	// stepWait leaves the pod and, in an ordered set, those after it.
	stepWait step = "wait"
	// stepCreate creates the pod.
	stepCreate step = "create"
	// stepRemove deletes the pod.
	stepRemove step = "remove"
)

// replicaStep is what is next for the pod of a slot that is to be filled.
func replicaStep(set *appsv1.StatefulSet, pod *corev1.Pod, now time.Time) step {
	switch {
	case pods.IsTerminal(pod) && pod.DeletionTimestamp == nil:
		return stepRemove
	case pods.IsTerminal(pod):
		return stepWait
	case !isCreated(pod):
		return stepCreate
	case isOrdered(set) && isUnavailable(set, pod, now):
		// Deleted, not Running and Ready, or not for long enough: it will be.
		return stepWait
	}
	return stepKeep
}

// condemnedStep is what is next for a condemned pod. In an ordered set a pod that is not
// available waits, unless it is the first of the set that is not.
func condemnedStep(set *appsv1.StatefulSet, pod, firstUnavailable *corev1.Pod, now time.Time) step {
	switch {
	case pod.DeletionTimestamp != nil && isOrdered(set):
		return stepWait
	case pod.DeletionTimestamp != nil:
		return stepKeep
	case isOrdered(set) && !isAvailable(set, pod, now) && pod != firstUnavailable:
		return stepWait
	}
	return stepRemove
}
