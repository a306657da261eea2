package statefulset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// layout holds the pods of a set by slot.
type layout struct {
	// replicas holds a pod for each slot to be filled, lowest first. Missing pods were built
	// and are to be created.
	replicas []*corev1.Pod
	// condemned holds the pods of other slots, highest first.
	condemned []*corev1.Pod
	// firstUnavailable is the lowest pod that is not available or is being deleted. Pods
	// of slots to be filled come before condemned ones. Nil if there is none.
	firstUnavailable *corev1.Pod
}

// layOut assigns pods to slots and builds the missing ones.
func layOut(set *appsv1.StatefulSet, members []*corev1.Pod, now time.Time, missing func(ordinal int) (*corev1.Pod, error)) (layout, error) {
	first := firstOrdinal(set)
	l := layout{replicas: make([]*corev1.Pod, replicasOf(set))}
	for _, pod := range members {
		ordinal := ordinalOf(pod)
		switch {
		case inRange(set, ordinal):
			l.replicas[ordinal-first] = pod
		case ordinal >= 0:
			l.condemned = append(l.condemned, pod)
		}
	}
	for i, pod := range l.replicas {
		if pod != nil {
			continue
		}
		var err error
		if l.replicas[i], err = missing(first + i); err != nil {
			return layout{}, err
		}
	}
	slices.SortFunc(l.condemned, func(a, b *corev1.Pod) int { return cmp.Compare(ordinalOf(b), ordinalOf(a)) })
	l.firstUnavailable = firstUnavailable(set, l.replicas, l.condemned, now)
	return l, nil
}

func firstUnavailable(set *appsv1.StatefulSet, replicas, condemned []*corev1.Pod, now time.Time) *corev1.Pod {
	for _, pod := range replicas {
		if isUnavailable(set, pod, now) {
			return pod
		}
	}
	for _, pod := range slices.Backward(condemned) {
		if isUnavailable(set, pod, now) {
			return pod
		}
	}
	return nil
}

// all returns the pods of all slots.
func (l layout) all() []*corev1.Pod { return slices.Concat(l.replicas, l.condemned) }

// isAvailable reports whether a pod is running and has been ready for minReadySeconds.
func isAvailable(set *appsv1.StatefulSet, pod *corev1.Pod, now time.Time) bool {
	return isRunningAndReady(pod) && pods.IsAvailable(pod, set.Spec.MinReadySeconds, now)
}

// isUnavailable reports whether a pod is not available or is being deleted.
func isUnavailable(set *appsv1.StatefulSet, pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil || !isAvailable(set, pod, now)
}

// isOrdered reports whether the pods of a set are processed one at a time.
func isOrdered(set *appsv1.StatefulSet) bool {
	return set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}
