package deployment

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// progressSlack is added to the delay before a rollout is checked against its deadline.
const progressSlack = time.Second

// pauseCondition returns the condition Progressing that reports that a Deployment was paused or
// resumed, and false if it need not change. A rollout that has timed out remains so whether it
// is paused or not.
func pauseCondition(d *appsv1.Deployment, now time.Time) (appsv1.DeploymentCondition, bool) {
	if !hasDeadline(d) {
		return appsv1.DeploymentCondition{}, false
	}
	reason := progressReason(d)
	switch {
	case reason == reasonTimedOut:
	case d.Spec.Paused && reason != reasonPaused:
		return progressing(corev1.ConditionUnknown, reasonPaused, "Deployment is paused", now), true
	case !d.Spec.Paused && reason == reasonPaused:
		return progressing(corev1.ConditionUnknown, reasonResumed, "Deployment is resumed", now), true
	}
	return appsv1.DeploymentCondition{}, false
}

func progressReason(d *appsv1.Deployment) string {
	if c := findCondition(d.Status.Conditions, appsv1.DeploymentProgressing); c != nil {
		return c.Reason
	}
	return ""
}

// rolloutStatus returns the observed status with the condition Progressing, judged by the
// changes since the status of d, and with the condition ReplicaFailure, if any.
func rolloutStatus(d *appsv1.Deployment, sets replicaSets, terminating bool, now time.Time) appsv1.DeploymentStatus {
	status := observedStatus(d, sets, terminating, now)
	switch {
	case !hasDeadline(d):
		status.Conditions = withoutCondition(status.Conditions, appsv1.DeploymentProgressing)
	case status.Replicas == status.UpdatedReplicas && progressReason(d) == reasonComplete:
		// Scaling and pod restarts after a finished rollout do not start a new one.
	case isComplete(d, &status):
		status.Conditions = withCondition(status.Conditions, progressing(corev1.ConditionTrue, reasonComplete,
			rolloutSubject(d, sets)+" has successfully progressed.", now))
	case isProgress(&d.Status, &status):
		status.Conditions = replaceCondition(status.Conditions, progressing(corev1.ConditionTrue, reasonUpdated,
			rolloutSubject(d, sets)+" is progressing.", now))
	case isTimedOut(d, now):
		status.Conditions = withCondition(status.Conditions, progressing(corev1.ConditionFalse, reasonTimedOut,
			rolloutSubject(d, sets)+" has timed out progressing.", now))
	}
	if failure, ok := replicaFailure(sets); ok {
		status.Conditions = withCondition(status.Conditions, failure)
	} else {
		status.Conditions = withoutCondition(status.Conditions, appsv1.DeploymentReplicaFailure)
	}
	return status
}

func rolloutSubject(d *appsv1.Deployment, sets replicaSets) string {
	if sets.current == nil {
		return fmt.Sprintf("Deployment %q", d.Name)
	}
	return fmt.Sprintf("ReplicaSet %q", sets.current.Name)
}

// isProgress reports whether more pods are updated, ready or available than before, or
// fewer are old.
func isProgress(before, after *appsv1.DeploymentStatus) bool {
	oldBefore, oldAfter := before.Replicas-before.UpdatedReplicas, after.Replicas-after.UpdatedReplicas
	return after.UpdatedReplicas > before.UpdatedReplicas || oldAfter < oldBefore ||
		after.ReadyReplicas > before.ReadyReplicas || after.AvailableReplicas > before.AvailableReplicas
}

// isTimedOut reports whether a rollout has made no progress for longer than its deadline. A
// completed rollout has no deadline; one that timed out remains so until it progresses.
func isTimedOut(d *appsv1.Deployment, now time.Time) bool {
	c := findCondition(d.Status.Conditions, appsv1.DeploymentProgressing)
	if c == nil || c.Reason == reasonComplete {
		return false
	}
	return c.Reason == reasonTimedOut || deadlineAfter(d, c).Before(now)
}

// progressCheck returns the delay before a rollout without progress is checked against its
// deadline, and false if it cannot time out. A completed rollout cannot, even if it has lost
// pods since; checking it would never end.
func progressCheck(d *appsv1.Deployment, now time.Time) (time.Duration, bool) {
	c := findCondition(d.Status.Conditions, appsv1.DeploymentProgressing)
	if !hasDeadline(d) || c == nil || c.Reason == reasonTimedOut || c.Reason == reasonComplete || isComplete(d, &d.Status) {
		return 0, false
	}
	deadline := deadlineAfter(d, c)
	if left := deadline.Sub(now); left < progressSlack {
		// The deadline must have passed, not only be reached.
		return max(left, 0) + time.Millisecond, true
	}
	return deadline.Add(progressSlack).Sub(now), true // a duration, which ends at 292 years, would overflow
}

func deadlineAfter(d *appsv1.Deployment, c *appsv1.DeploymentCondition) time.Time {
	return c.LastUpdateTime.Add(time.Duration(ptr.Deref(d.Spec.ProgressDeadlineSeconds, 0)) * time.Second)
}
