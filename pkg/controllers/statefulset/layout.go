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
	// replicas holds the pods of slots to be filled, lowest first. Missing ones, which are to be
	// created, have only a name.
	replicas []*corev1.Pod
	// cut means that replicas leaves out missing pods, since there are more than one reconcile
	// creates.
	cut bool
	// condemned holds the pods of other slots, highest first.
	condemned []*corev1.Pod
	// firstUnavailable is the lowest pod that is not available or is being deleted. Pods
	// of slots to be filled come before condemned ones, and of these no finished one counts, for which nobody has to
	// wait. Nil if there is none.
	firstUnavailable *corev1.Pod
}

// slot is a slot that has a pod.
type slot struct {
	ordinal int
	pod     *corev1.Pod
}

// layOut assigns pods to slots. Its cost depends on the pods that exist, on the claims that are
// waited for, and on how many pods one reconcile creates, but not on spec.replicas, which may be
// billions. The function waits reports whether a missing pod cannot be created yet.
func layOut(
	set *appsv1.StatefulSet, members []*corev1.Pod, now time.Time, waits func(missing *corev1.Pod) bool,
) layout {
	var l layout
	filled := make([]slot, 0, len(members))
	for _, pod := range members {
		ordinal := ordinalOf(pod)
		switch {
		case inRange(set, ordinal):
			filled = append(filled, slot{ordinal, pod})
		case ordinal >= 0:
			l.condemned = append(l.condemned, pod)
		}
	}
	slices.SortFunc(filled, func(a, b slot) int { return cmp.Compare(a.ordinal, b.ordinal) })
	slices.SortFunc(l.condemned, func(a, b *corev1.Pod) int { return cmp.Compare(ordinalOf(b), ordinalOf(a)) })
	l.replicas = withMissing(set, filled, waits)
	l.cut = len(l.replicas) <= lastOrdinal(set)-firstOrdinal(set)
	l.firstUnavailable = firstUnavailable(set, l.replicas, l.condemned, now)
	return l
}

// withMissing returns the pods of the sorted slots, with the lowest missing ones between and after
// them: as many as one reconcile creates, not counting those of a parallel set that wait, which do
// not hold up the others.
func withMissing(set *appsv1.StatefulSet, sorted []slot, waits func(missing *corev1.Pod) bool) []*corev1.Pod {
	replicas := make([]*corev1.Pod, 0, len(sorted))
	next, room := firstOrdinal(set), maxCreated(set)
	fill := func(end int) {
		for ; next < end && room > 0; next++ {
			pod := missingPod(set, next)
			replicas = append(replicas, pod)
			if isOrdered(set) || !waits(pod) {
				room--
			}
		}
	}
	for _, s := range sorted {
		fill(s.ordinal)
		replicas = append(replicas, s.pod)
		next = s.ordinal + 1
	}
	fill(lastOrdinal(set) + 1)
	return replicas
}

// maxCreated returns the number of pods that one reconcile creates at most. An ordered set ends at
// the first missing one.
func maxCreated(set *appsv1.StatefulSet) int {
	if isOrdered(set) {
		return 1
	}
	return maxBatch
}

func firstUnavailable(set *appsv1.StatefulSet, replicas, condemned []*corev1.Pod, now time.Time) *corev1.Pod {
	for _, pod := range replicas {
		if isUnavailable(set, pod, now) {
			return pod
		}
	}
	for _, pod := range slices.Backward(condemned) {
		if isUnavailable(set, pod, now) && !pods.IsTerminal(pod) {
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
