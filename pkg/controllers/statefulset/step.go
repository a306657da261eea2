package statefulset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// step is the next action for a pod.
type step string

const (
	// stepKeep leaves the pod and continues with the next one.
	stepKeep step = "keep"
	// stepWait leaves the pod and, in an ordered set, the following ones.
	stepWait step = "wait"
	// stepCreate creates the pod.
	stepCreate step = "create"
	// stepRemove deletes the pod.
	stepRemove step = "remove"
)

// replicaStep returns the next step for the pod of a slot to be filled.
func replicaStep(set *appsv1.StatefulSet, pod *corev1.Pod, now time.Time) step {
	switch {
	case pods.IsTerminal(pod) && pod.DeletionTimestamp == nil:
		return stepRemove
	case pods.IsTerminal(pod):
		return stepWait
	case !isCreated(pod):
		return stepCreate
	case isOrdered(set) && isUnavailable(set, pod, now):
		// It is being deleted, not Running and Ready, or not long enough.
		return stepWait
	}
	return stepKeep
}

// condemnedStep returns the next step for a condemned pod. In an ordered set a pod that is not
// available waits, unless it is the first of the set that is not, or has finished, and so never
// will be.
func condemnedStep(set *appsv1.StatefulSet, pod, firstUnavailable *corev1.Pod, now time.Time) step {
	switch {
	case pod.DeletionTimestamp != nil && isOrdered(set):
		return stepWait
	case pod.DeletionTimestamp != nil:
		return stepKeep
	case isOrdered(set) && !isAvailable(set, pod, now) && pod != firstUnavailable && !pods.IsTerminal(pod):
		return stepWait
	}
	return stepRemove
}
