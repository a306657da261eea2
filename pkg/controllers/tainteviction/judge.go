package tainteviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// origin is since when the taints of a pod count that has no appointment yet.
type origin int

const (
	// sinceNow: something has changed, and the time begins now.
	sinceNow origin = iota
	// foundAtStart: it is found when the instance begins, and the time may have begun before.
	foundAtStart
)

// verdict is what becomes of the appointment with a pod.
type verdict struct {
	// cancelled says that the existing one is cancelled.
	cancelled bool
	// made is the one that is made, nil if none is.
	made *appointment
}

// judge decides about a pod on a node with at least one taint. existing is the appointment with the pod, nil if there
// is none. An immediate one that has not begun, since it may be held back, does not outlast its reason: it counts as
// none if the pod tolerates the taints for some time.
func (c config) judge(
	logger klog.Logger, pod *corev1.Pod, taints []corev1.Taint, existing *appointment, now time.Time, from origin,
) verdict {
	tolerances, all := c.tolerances(logger, pod.Spec.Tolerations, taints)
	if !all {
		return atOnce(pod, existing, now)
	}
	lasts := shortest(tolerances)
	if lasts == forever {
		return verdict{cancelled: existing != nil}
	}
	made := appointment{uid: pod.UID, node: pod.Spec.NodeName, created: now, due: now.Add(lasts)}
	outlasts := existing != nil && existing.isImmediate() && !existing.begun && lasts > 0
	switch {
	case (existing == nil || outlasts) && from == foundAtStart:
		made.created, made.due = resumed(pod, tolerances, now)
		return verdict{cancelled: outlasts, made: &made}
	case existing == nil || outlasts:
		return verdict{cancelled: outlasts, made: &made}
	case existing.begun || existing.isImmediate() || existing.created.Before(now) || existing.due.Equal(made.due):
		return verdict{}
	default: // the clock was set back
		made.created = existing.created
		return verdict{cancelled: true, made: &made}
	}
}

// atOnce decides about a pod that does not tolerate a taint. An eviction that has begun goes on.
func atOnce(pod *corev1.Pod, existing *appointment, now time.Time) verdict {
	if existing != nil && (existing.begun || existing.isImmediate()) {
		return verdict{}
	}
	made := appointment{uid: pod.UID, node: pod.Spec.NodeName, created: now, due: now}
	return verdict{cancelled: existing != nil, made: &made}
}
