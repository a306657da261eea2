package replicas

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// report brings the status of an owner up to date, now or, if it says nothing that
// anyone waits for, shortly; and sees to it that pods which become available are noticed.
func (e *Engine[T]) report(ctx context.Context, owner T, observed observation, failure error) error {
	now := e.clock.Now()
	spec, current := e.kind.Spec(owner), e.kind.Status(owner)
	next := e.count(owner, spec, observed, now)
	next.Conditions = nextConditions(current.Conditions, failure, len(observed.active), int(spec.Replicas), now)

	if !equality.Semantic.DeepEqual(current, next) {
		if wait := e.writes.Delay(keyOf(owner)); wait > 0 && !urgent(current, next, spec.Replicas) {
			e.queue.AddAfter(keyOf(owner), wait)
		} else if err := e.writeStatus(ctx, owner, next); err != nil {
			return err
		}
	}
	if failure == nil && spec.MinReadySeconds > 0 && next.Ready != next.Available {
		e.checkAvailability(owner, observed.active, spec.MinReadySeconds, now)
	}
	return nil
}

// checkAvailability queues the owner for when the next of its pods becomes available.
func (e *Engine[T]) checkAvailability(owner T, active []*corev1.Pod, minReadySeconds int32, asOf time.Time) {
	after, ok := pods.NextAvailabilityCheck(active, minReadySeconds, asOf, e.clock)
	if !ok {
		after = time.Duration(minReadySeconds) * time.Second
	}
	e.queue.AddAfter(keyOf(owner), after)
}

// count returns the status without conditions.
func (e *Engine[T]) count(owner T, spec Spec, observed observation, now time.Time) Status {
	status := countPods(observed.active, e.kind.Template(owner).Labels, spec.MinReadySeconds, now)
	status.ObservedGeneration = owner.GetGeneration()
	if e.options.CountTerminating {
		status.Terminating = ptr.To(observed.terminating)
	}
	return status
}

func countPods(active []*corev1.Pod, templateLabels map[string]string, minReadySeconds int32, now time.Time) Status {
	status := Status{Replicas: int32(len(active))}
	for _, pod := range active {
		if hasAll(pod.Labels, templateLabels) {
			status.FullyLabeled++
		}
		if !pods.IsReady(pod) {
			continue
		}
		status.Ready++
		if pods.IsAvailable(pod, minReadySeconds, now) {
			status.Available++
		}
	}
	return status
}

func hasAll(set, wanted map[string]string) bool {
	for key, value := range wanted {
		if has, ok := set[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// nextConditions adds ReplicaFailure if there was a failure and the condition is not
// there, removes it if there was none, and keeps everything else. An existing condition
// stays as it is: its message is that of the first failure.
func nextConditions(current []Condition, failure error, active, desired int, now time.Time) []Condition {
	isFailure := func(c Condition) bool { return c.Type == ReplicaFailure }
	present := slices.ContainsFunc(current, isFailure)
	switch {
	case failure == nil && present:
		return slices.DeleteFunc(slices.Clone(current), isFailure)
	case failure == nil || present:
		return current
	}
	reason := pods.ReasonFailedCreate
	if active > desired {
		reason = pods.ReasonFailedDelete
	}
	return append(slices.Clone(current), Condition{
		Type:               ReplicaFailure,
		Status:             corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now),
		Reason:             reason,
		Message:            failure.Error(),
	})
}

// urgent reports that someone may be waiting for what a status says: that a change of
// the spec was seen, that something fails or no longer does, that a count has reached
// the desired number, or that the last terminating pod is gone.
func urgent(current, next Status, desired int32) bool {
	reached := func(was, is int32) bool { return was != is && is == desired }
	return current.ObservedGeneration != next.ObservedGeneration ||
		!equality.Semantic.DeepEqual(current.Conditions, next.Conditions) ||
		reached(current.Replicas, next.Replicas) ||
		reached(current.FullyLabeled, next.FullyLabeled) ||
		reached(current.Ready, next.Ready) ||
		reached(current.Available, next.Available) ||
		ptr.Deref(current.Terminating, 0) != 0 && ptr.Deref(next.Terminating, 0) == 0
}

// writeStatus sends a status. If that fails, for whatever reason, it is tried once more
// on the live object.
func (e *Engine[T]) writeStatus(ctx context.Context, owner T, status Status) error {
	klog.FromContext(ctx).V(4).Info("Updating status", "owner", klog.KObj(owner), "status", status)
	written, err := e.kind.WriteStatus(ctx, owner, status)
	if err != nil {
		live, getErr := e.kind.Live(ctx, owner.GetNamespace(), owner.GetName())
		if getErr != nil {
			return getErr
		}
		if live.GetUID() != owner.GetUID() {
			return reconcile.Requeue(fmt.Errorf("%s was recreated: got uid %s, wanted %s", keyOf(owner), live.GetUID(), owner.GetUID()))
		}
		if written, err = e.kind.WriteStatus(ctx, live, status); err != nil {
			return err
		}
	}
	e.written.Mutation(written)
	e.writes.Wrote(keyOf(owner), written.GetResourceVersion())
	if e.options.RequireFresh {
		e.tracker.Wrote(keyOf(owner), owner.GetUID(), e.kind.Resource, written.GetResourceVersion())
	}
	return nil
}
