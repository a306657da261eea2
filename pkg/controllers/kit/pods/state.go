package pods

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// IsTerminal reports whether a pod has finished and will not run again.
func IsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsActive reports whether a pod has neither finished nor is being deleted.
func IsActive(pod *corev1.Pod) bool {
	return !IsTerminal(pod) && pod.DeletionTimestamp == nil
}

// IsTerminating reports whether a pod is being deleted and has not finished.
func IsTerminating(pod *corev1.Pod) bool {
	return !IsTerminal(pod) && pod.DeletionTimestamp != nil
}

// ReadyCondition returns the first Ready condition of a pod, or nil.
func ReadyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// IsReady reports whether the Ready condition of a pod is true, whatever its phase.
func IsReady(pod *corev1.Pod) bool {
	ready := ReadyCondition(pod)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// IsAvailable reports whether a pod has been ready for minReadySeconds at the time now. A pod
// that has been ready for exactly that long is available.
func IsAvailable(pod *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	if !IsReady(pod) {
		return false
	}
	if minReadySeconds == 0 {
		return true
	}
	since := ReadyCondition(pod).LastTransitionTime
	return !since.IsZero() && !since.Add(seconds(minReadySeconds)).After(now)
}

// NextAvailabilityCheck returns the delay until the next of the pods may become available, and
// false if no pod will by time alone. asOf is when availability was last evaluated: the delay
// is 0 if a pod has become available since.
func NextAvailabilityCheck(
	pods []*corev1.Pod, minReadySeconds int32, asOf time.Time, c clock.PassiveClock,
) (time.Duration, bool) {
	if minReadySeconds <= 0 {
		return 0, false
	}
	var next time.Time
	for _, pod := range pods {
		if !IsReady(pod) {
			continue
		}
		due := ReadyCondition(pod).LastTransitionTime.Add(seconds(minReadySeconds))
		if due.After(asOf) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if next.IsZero() {
		return 0, false
	}
	return max(0, next.Sub(c.Now())), true
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
