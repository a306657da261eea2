package tainteviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// settling is how long an instance waits at least before it evicts a pod whose time was over when it began. Nodes that
// recovered while the API server could not be reached, and nobody could remove their taints, report within that time.
const settling = 30 * time.Second

// precision is that of a time in the API, which is cut off to the second: what it is about happened up to that much
// later.
const precision = time.Second

// resumed returns the appointment of a pod that was found when the instance began, so that its time may have been
// counted before. It is that of the taint that was added first, among those whose time of addition is known and which
// are tolerated for a limited time. The appointment is never earlier than that of an instance that has been there all
// the time, except that it does not know of taints that are gone.
//
// If the API does not show since when the pod has been there or tolerates the taints, the time begins now.
func resumed(pod *corev1.Pod, tolerances []tolerance, now time.Time) (created, due time.Time) {
	unknown := now.Add(shortest(tolerances))
	if pod.Generation != 1 {
		return now, unknown // its tolerations may have been others
	}
	first, ok := firstAdded(tolerances)
	if !ok {
		return now, unknown
	}
	since := first.taint.TimeAdded.Time
	if bound := boundAt(pod); bound.After(since) {
		since = bound
	}
	since = since.Add(precision)
	if !since.Before(now) {
		return now, unknown
	}
	due = since.Add(first.lasts)
	if least := min(settling, shortest(tolerances)); least > 0 && due.Before(now.Add(least)) {
		due = now.Add(least)
	}
	return since, due
}

// firstAdded returns which of the taints that are tolerated for a limited time was added first, as
// far as the API shows when. Of several, it is the one that is tolerated for the shortest time.
func firstAdded(tolerances []tolerance) (first tolerance, ok bool) {
	for _, t := range tolerances {
		if t.lasts == forever || t.taint.TimeAdded == nil {
			continue
		}
		added := t.taint.TimeAdded
		if !ok || added.Before(first.taint.TimeAdded) || added.Equal(first.taint.TimeAdded) && t.lasts < first.lasts {
			first, ok = t, true
		}
	}
	return first, ok
}

// boundAt returns when a pod was bound to its node, or created, if it was bound from the beginning.
func boundAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue &&
			condition.LastTransitionTime.After(pod.CreationTimestamp.Time) {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
