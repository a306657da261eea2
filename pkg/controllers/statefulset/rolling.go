package statefulset

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// isOutdated reports whether a pod runs, or will run, at a revision other than the update
// revision. It returns false for a pod that does not exist yet, or has finished and is deleted
// for that reason.
func isOutdated(pod *corev1.Pod, update string) bool {
	return revisionOf(pod) != update && isCreated(pod) && pods.IsActive(pod)
}

// nextVictim returns the pod that a rolling update deletes next: the topmost outdated one, if
// every pod above it is available. It returns nil if there is none or if it has to wait.
func nextVictim(set *appsv1.StatefulSet, replicas []*corev1.Pod, update string, now time.Time) []*corev1.Pod {
	for i := len(replicas) - 1; i >= partitionOf(set); i-- {
		if isOutdated(replicas[i], update) {
			return replicas[i : i+1]
		}
		if isUnavailable(set, replicas[i], now) {
			return nil
		}
	}
	return nil
}

// victimsWithin returns the outdated pods that a rolling update deletes next, topmost first, so that no more than
// maxUnavailable of all are unavailable. If as many are unavailable already, it returns some of those, since nothing is
// lost with them: as many as may be replaced at a time. Otherwise pods that never become ready, because of a faulty
// template, would prevent their own update (kubernetes/kubernetes#137409).
func victimsWithin(
	set *appsv1.StatefulSet, replicas []*corev1.Pod, update string, maxUnavailable int, unavailable []*corev1.Pod,
) []*corev1.Pod {
	if room := maxUnavailable - len(unavailable); room > 0 {
		return topmostOutdated(set, replicas, update, room)
	}
	if set.Spec.UpdateStrategy.RollingUpdate == nil {
		return nil // a pod below others that are outdated would be created at the current revision again
	}
	isReplaced := func(pod *corev1.Pod) bool { return !isOutdated(pod, update) }
	broken := slices.DeleteFunc(slices.Clone(unavailable), isReplaced)
	replaced := len(unavailable) - len(broken)
	return topmostOutdated(set, broken, update, maxUnavailable-replaced)
}

// topmostOutdated returns at most n of the outdated pods that a rolling update replaces, topmost first. The pods are
// sorted by slot.
func topmostOutdated(set *appsv1.StatefulSet, sorted []*corev1.Pod, update string, n int) []*corev1.Pod {
	var victims []*corev1.Pod
	lowest := firstOrdinal(set) + partitionOf(set)
	for _, pod := range slices.Backward(sorted) {
		if len(victims) >= n || ordinalOf(pod) < lowest {
			break
		}
		if isOutdated(pod, update) {
			victims = append(victims, pod)
		}
	}
	return victims
}

// unavailableOf returns the pods that are unavailable.
func unavailableOf(set *appsv1.StatefulSet, replicas []*corev1.Pod, now time.Time) []*corev1.Pod {
	var unavailable []*corev1.Pod
	for _, pod := range replicas {
		if isUnavailable(set, pod, now) {
			unavailable = append(unavailable, pod)
		}
	}
	return unavailable
}

// maxUnavailableOf returns the number of pods that may be unavailable during a rolling update.
// A percentage is rounded down; the minimum and default is 1.
func maxUnavailableOf(set *appsv1.StatefulSet) (int, error) {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil {
		return 1, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, replicasOf(set), false)
	if err != nil {
		return 0, fmt.Errorf("reading maxUnavailable: %w", err)
	}
	return max(n, 1), nil
}
