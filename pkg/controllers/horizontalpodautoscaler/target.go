package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// target is the scaled object of an autoscaler.
type target struct {
	resource schema.GroupResource
	scale    *autoscalingv1.Scale
}

// withoutVersion returns a reference with the group of its kind only: whatever the version, it is the same target.
func withoutVersion(ref autoscalingv2.CrossVersionObjectReference) autoscalingv2.CrossVersionObjectReference {
	ref.APIVersion = schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group
	return ref
}

// absentError is the error of a target that does not exist, with the text of its cause.
type absentError struct{ error }

// Unwrap returns the cause.
func (e absentError) Unwrap() error { return e.error }

// findTarget reads the live scale of the target. The version of its kind is ignored; of several
// resources of the kind, the first that has the object is used. Its errors are not wrapped:
// users read them in the status of the autoscaler.
func (e *evaluation) findTarget(ctx context.Context) (target, error) {
	ref := e.hpa.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return target{}, specError{err}
	}
	kind := schema.GroupKind{Group: gv.Group, Kind: ref.Kind}
	mappings, err := e.Mapper.RESTMappings(kind)
	switch {
	case meta.IsNoMatchError(err):
		return target{}, absentError{err}
	case err != nil:
		return target{}, err
	}
	var first error
	absent := true
	for _, m := range mappings {
		resource := m.Resource.GroupResource()
		scale, err := e.scales.Scales(e.hpa.Namespace).Get(ctx, resource, ref.Name, metav1.GetOptions{})
		if err == nil {
			return target{resource, scale}, nil
		}
		if first == nil {
			first = err
		}
		absent = absent && controller.Absent(err)
	}
	if first == nil {
		first = errors.New("unrecognized resource")
	}
	if absent {
		return target{}, absentError{first}
	}
	return target{}, first
}

// rescale scales the target. A failure ends the evaluation.
func (e *evaluation) rescale(ctx context.Context, t target, w want) error {
	current := t.scale.Spec.Replicas
	if err := e.writeScale(ctx, t, w.replicas); err != nil {
		if !requests.IsRefusal(err) {
			e.past.attempted = attempt{current, w.replicas, e.now}
			if e.zeroes(current, w.replicas) {
				e.past.stopped = byAutoscaler
			}
		}
		e.RecordFailure(ctx, failedRescale(e.hpa, w, err))
		e.setFalse(autoscalingv2.AbleToScale, "FailedUpdateScale",
			"the HPA controller was unable to update the target scale: %v", err)
		e.report(current, e.before.DesiredReplicas, w.statuses)
		e.saveOrLog(ctx)
		return fmt.Errorf("scaling %s: %w", e.reference(), err)
	}
	e.setTrue(autoscalingv2.AbleToScale, "SucceededRescale",
		"the HPA controller was able to update the target scale to %d", w.replicas)
	e.Record(rescaled(e.hpa, w))
	e.action = actionOf(w.replicas, current)
	e.noteZero(current, w.replicas)
	e.recordScale(attempt{current, w.replicas, e.now})
	klog.FromContext(ctx).Info("Rescaled",
		"key", e.key, "target", e.reference(), "from", current, "to", w.replicas, "reason", w.reason)
	return nil
}

// recordScale records a change of the scale that was made, if policies limit the next ones.
func (e *evaluation) recordScale(made attempt) {
	if e.hpa.Spec.Behavior == nil {
		return
	}
	b := resolveBehavior(e.hpa.Spec.Behavior, e.config.downscaleStabilization)
	e.past.recordScale(made.from, made.to, made.at, b.up.longestPeriod(), b.down.longestPeriod())
}

// concludeAttempt records the last change of the scale, if it was not known whether it was made, and the present size
// says that it was.
func (e *evaluation) concludeAttempt(current int32) {
	last := e.past.attempted
	e.past.attempted = attempt{}
	if last.from != last.to && last.to == current {
		e.recordScale(last)
	}
}

// writeScale writes the number of replicas, and retries on conflicts as long as the decision stands. A write without an
// answer counts as one that worked if the scale is as wanted after it.
func (e *evaluation) writeScale(ctx context.Context, t target, replicas int32) error {
	scales, scale, stands := e.scales.Scales(e.hpa.Namespace), t.scale.DeepCopy(), true
	retriable := func(err error) bool { return stands && apierrors.IsConflict(err) }
	return requests.RetryOn(retriable, retry.DefaultRetry, func() error {
		scale.Spec.Replicas = replicas
		_, err := scales.Update(ctx, t.resource, scale, metav1.UpdateOptions{})
		if err == nil {
			return nil
		}
		fresh, getErr := scales.Get(ctx, t.resource, e.hpa.Spec.ScaleTargetRef.Name, metav1.GetOptions{})
		if getErr != nil {
			klog.FromContext(ctx).Error(getErr, "Failed to read the scale after a failed write", "key", e.key)
			return err
		}
		if !requests.IsRefusal(err) && fresh.Spec.Replicas == replicas {
			return nil
		}
		scale, stands = fresh, standsFor(t.scale, fresh, replicas)
		return err
	})
}

// standsFor reports whether a decision about one state of a scale holds for a later one. It does not if somebody else
// has scaled the target otherwise, stopped it for example, or if the target was created again.
func standsFor(decided, fresh *autoscalingv1.Scale, replicas int32) bool {
	is := fresh.Spec.Replicas
	return fresh.UID == decided.UID && (is == decided.Spec.Replicas || is == replicas)
}

// zeroes reports whether a change of the scale is to zero, and the autoscaler able to scale up again.
func (e *evaluation) zeroes(current, desired int32) bool {
	return e.config.scaleToZero && current > 0 && desired == 0 && e.min == 0 && e.hasMetricWithoutPods()
}

func (e *evaluation) setZero() {
	e.setTrue(autoscalingv2.ScaledToZero, "ScaledToZero", "the HPA controller scaled the workload to zero")
}

func (e *evaluation) setNotZero() {
	e.setFalse(autoscalingv2.ScaledToZero, "NotScaledToZero", "the HPA controller did not scale the workload to zero")
}

// recallZero makes the status say whether this autoscaler scaled its target to zero, if that was not written. Once the
// target has replicas, whoever scales it to zero does so again.
func (e *evaluation) recallZero(current int32) {
	if current > 0 {
		e.past.stopped = bySomebodyElse
	}
	switch {
	case !e.config.scaleToZero:
	case e.past.stopped == byAutoscaler:
		e.setZero()
	case e.past.stopped == bySomebodyElse && e.hasCondition(autoscalingv2.ScaledToZero):
		e.setNotZero()
	}
}

// forgetZero removes what the status says of a target that was another one.
func (e *evaluation) forgetZero() {
	if e.past.stopped == bySomebodyElse {
		e.removeCondition(autoscalingv2.ScaledToZero)
	}
}

// noteZero records whether this autoscaler scaled its target to zero: only then may it scale it
// up again.
func (e *evaluation) noteZero(current, desired int32) {
	e.past.stopped = bySomebodyElse
	switch {
	case !e.config.scaleToZero:
		e.removeCondition(autoscalingv2.ScaledToZero)
	case e.zeroes(current, desired):
		e.past.stopped = byAutoscaler
		e.setZero()
	default:
		e.setNotZero()
	}
}
