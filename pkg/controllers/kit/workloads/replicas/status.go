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

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// report updates the status of an owner, after a short delay if the change is not urgent, and
// enqueues the owner for when a pod becomes available.
func (e *Engine[T]) report(ctx context.Context, owner T, observed observation, failure error) error {
	now := e.clock.Now()
	spec, current := e.kind.Spec(owner), e.kind.Status(owner)
	next := e.count(owner, spec, observed, now)
	next.Conditions = current.Conditions
	if observed.settled {
		next.Conditions = nextConditions(current.Conditions, failure, len(observed.active), int(spec.Replicas), now)
	}

	if !equality.Semantic.DeepEqual(current, next) {
		isUrgent := urgent(current, next, spec.Replicas, e.owners.Writes.CountsChanging(owner))
		if putOff := !isUrgent && e.owners.PutOff(owner, next, writes.CountsWindow); !putOff {
			if err := e.writeStatus(ctx, owner, next); err != nil {
				return err
			}
		}
	}
	if spec.MinReadySeconds > 0 && next.Ready != next.Available {
		e.checkAvailability(owner, observed.active, spec.MinReadySeconds, now)
	}
	return nil
}

// checkAvailability enqueues the owner for when the next of its pods becomes available.
func (e *Engine[T]) checkAvailability(owner T, active []*corev1.Pod, minReadySeconds int32, asOf time.Time) {
	after, ok := pods.NextAvailabilityCheck(active, minReadySeconds, asOf, e.clock)
	if !ok {
		after = time.Duration(minReadySeconds) * time.Second
	}
	e.owners.EnqueueAfter(owner, after)
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

// nextConditions adds ReplicaFailure if there was a failure and the condition is missing,
// removes it if there was none, and keeps the other conditions. An existing condition is not
// updated: its message is that of the first failure.
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

// urgent reports whether somebody may be waiting for a status: because a change of the spec was
// observed, a failure appeared or disappeared, a count reached the desired number, pods are no longer ready or
// available though all were, or the last terminating pod is gone. While the counts are about to change, a spec without
// them tells little.
func urgent(current, next Status, desired int32, changing bool) bool {
	reached := func(was, is int32) bool { return was != is && is == desired }
	lost := func(was, is int32) bool { return was == desired && is < was }
	return !changing && current.ObservedGeneration != next.ObservedGeneration ||
		!equality.Semantic.DeepEqual(current.Conditions, next.Conditions) ||
		reached(current.Replicas, next.Replicas) ||
		reached(current.FullyLabeled, next.FullyLabeled) ||
		reached(current.Ready, next.Ready) ||
		reached(current.Available, next.Available) ||
		lost(current.Ready, next.Ready) ||
		lost(current.Available, next.Available) ||
		ptr.Deref(current.Terminating, 0) != 0 && ptr.Deref(next.Terminating, 0) == 0
}

// updateStatus returns the owner as it was stored.
func (e *Engine[T]) updateStatus(ctx context.Context, owner T, status Status) (T, error) {
	stored := e.kind.WithStatus(owner, status)
	answer, err := e.kind.UpdateStatus(controller.OnlyMetadata(ctx), stored)
	if err == nil {
		*e.kind.Metadata(stored) = *e.kind.Metadata(answer)
	}
	return stored, err
}

// writeStatus updates the status. After any error it retries once with the live object.
func (e *Engine[T]) writeStatus(ctx context.Context, owner T, status Status) error {
	klog.FromContext(ctx).V(4).Info("Updating status", "owner", klog.KObj(owner), "status", status)
	written, err := e.updateStatus(ctx, owner, status)
	if err != nil {
		live, getErr := e.kind.Live(ctx, owner.GetNamespace(), owner.GetName())
		if getErr != nil {
			return getErr
		}
		if live.GetUID() != owner.GetUID() {
			return reconcile.Requeue(fmt.Errorf("%s was recreated: got uid %s, wanted %s", reconcile.KeyOf(owner), live.GetUID(), owner.GetUID()))
		}
		if written, err = e.updateStatus(ctx, live, status); err != nil {
			return err
		}
	}
	e.owners.WroteStatus(owner, written)
	return nil
}
