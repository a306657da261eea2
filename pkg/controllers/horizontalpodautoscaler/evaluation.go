package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// errSpec marks errors that only a change of the spec of an autoscaler can fix.
var errSpec = errors.New("invalid autoscaler")

// specError is such an error, with the text of its cause.
type specError struct{ error }

func (specError) Is(target error) bool { return target == errSpec }

// evaluation is one evaluation of an autoscaler.
type evaluation struct {
	*autoscalerController
	key    cache.ObjectName
	hpa    *autoscalingv2.HorizontalPodAutoscaler // a copy, on which the status is built
	before *autoscalingv2.HorizontalPodAutoscalerStatus
	now    time.Time
	past   *history
	min    int32

	action action // the action on the target
}

func (c *autoscalerController) newEvaluation(
	key cache.ObjectName, hpa *autoscalingv2.HorizontalPodAutoscaler, now time.Time,
) *evaluation {
	return &evaluation{
		autoscalerController: c,
		key:                  key,
		hpa:                  hpa,
		before:               hpa.Status.DeepCopy(),
		now:                  now,
		past:                 c.histories.of(key, hpa.UID),
		min:                  ptr.Deref(hpa.Spec.MinReplicas, 1),
		action:               actionNone,
	}
}

// run scales the target to the size that its metrics require.
func (e *evaluation) run(ctx context.Context) error {
	e.past.begin()
	if e.past.aimAt(withoutVersion(e.hpa.Spec.ScaleTargetRef)) {
		e.selectNothing()
		e.forgetZero()
	}
	target, err := e.findTarget(ctx)
	if err != nil {
		if errors.As(err, new(absentError)) {
			e.selectNothing()
		}
		e.warn(ctx, "FailedGetScale", err)
		e.setFalse(autoscalingv2.AbleToScale, "FailedGetScale",
			"the HPA controller was unable to get the target's current scale: %v", err)
		e.saveOrLog(ctx)
		return fmt.Errorf("getting the scale of %s: %w", e.reference(), err)
	}
	e.setTrue(autoscalingv2.AbleToScale, "SucceededGetScale",
		"the HPA controller was able to get the target's current scale")
	if e.past.meet(target.scale.UID) {
		e.forgetZero()
	}
	current := target.scale.Spec.Replicas
	e.past.seed(current, e.now, e.obsolete())
	e.recallZero(current)
	e.concludeAttempt(current)

	wanted, err := e.decide(ctx, target.scale)
	if wanted == nil {
		return err
	}
	if wanted.replicas != current {
		if err := e.rescale(ctx, target, *wanted); err != nil {
			return err
		}
	}
	e.report(current, wanted.replicas, wanted.statuses)
	if wanted.replicas != current {
		e.hpa.Status.LastScaleTime = &metav1.Time{Time: e.now}
	}
	e.metrics.desired(e.key, wanted.replicas)
	return errors.Join(e.save(ctx), err)
}

// obsolete says of recommendations that none of the windows includes them.
func (e *evaluation) obsolete() func(at time.Time) bool {
	if e.hpa.Spec.Behavior == nil {
		return before(e.now.Add(-e.config.downscaleStabilization))
	}
	return resolveBehavior(e.hpa.Spec.Behavior, e.config.downscaleStabilization).obsolete(e.now)
}

// want is the desired size of a target.
type want struct {
	replicas int32
	reason   string
	statuses []autoscalingv2.MetricStatus
}

// decide returns the desired size of the target. If it is nil, the evaluation ends with the
// error; otherwise an error reports that some of the metrics are invalid.
func (e *evaluation) decide(ctx context.Context, scale *autoscalingv1.Scale) (*want, error) {
	current := scale.Spec.Replicas
	switch {
	case current == 0 && !e.wakes():
		e.setFalse(autoscalingv2.ScalingActive, "ScalingDisabled",
			"scaling is disabled since the replica count of the target is zero")
		if !e.config.scaleToZero {
			e.removeCondition(autoscalingv2.ScaledToZero)
		}
		return &want{}, nil
	case current == 0:
	case current > e.hpa.Spec.MaxReplicas:
		return &want{replicas: e.hpa.Spec.MaxReplicas, reason: "Current number of replicas above Spec.MaxReplicas"}, nil
	case current < e.min:
		return &want{replicas: e.min, reason: belowMin}, nil
	}

	found := e.measure(ctx, scale)
	if found.replicas < 0 {
		e.report(current, e.before.DesiredReplicas, found.statuses)
		e.saveOrLog(ctx)
		e.warn(ctx, "FailedComputeMetricsReplicas", found.err)
		return nil, fmt.Errorf("computing the replicas of %s: %w", e.reference(), found.err)
	}
	return e.temper(current, found), found.err
}

const belowMin = "Current number of replicas below Spec.MinReplicas"

// wakes reports whether a target without replicas was scaled to zero by its autoscaler, which
// may therefore scale it up again.
func (e *evaluation) wakes() bool {
	return e.config.scaleToZero && e.hasCondition(autoscalingv2.ScaledToZero) && (e.min != 0 || e.hasMetricWithoutPods())
}

// hasMetricWithoutPods reports whether a metric has a value even if the target has no pods.
func (e *evaluation) hasMetricWithoutPods() bool {
	for _, m := range e.hpa.Spec.Metrics {
		if m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType {
			return true
		}
	}
	return false
}

// temper limits how far to follow the metrics now.
func (e *evaluation) temper(current int32, found measured) *want {
	w := &want{statuses: found.statuses}
	in := tempering{proposal: found.replicas, current: current, min: e.min, max: e.hpa.Spec.MaxReplicas, now: e.now}
	switch {
	case in.proposal > current:
		w.reason = found.name + " above target"
	case in.proposal < current:
		w.reason = "All metrics below target"
	}
	var out tempered
	if e.hpa.Spec.Behavior == nil {
		out = temper(in, e.past, e.config.downscaleStabilization)
	} else {
		out = temperByBehavior(in, e.past, resolveBehavior(e.hpa.Spec.Behavior, e.config.downscaleStabilization))
	}
	e.past.unrecorded = false
	for _, f := range []finding{out.able, out.limited} {
		e.set(f.kind, f.status, f.reason, f.message)
	}
	w.replicas = out.replicas
	if e.config.scaleToZero && current == 0 && e.min != 0 && w.replicas < e.min {
		w.replicas = e.min
		if w.reason == "" {
			w.reason = belowMin
		}
	}
	return w
}

// reference returns the name of the target for messages.
func (e *evaluation) reference() string {
	return fmt.Sprintf("%s/%s/%s", e.hpa.Spec.ScaleTargetRef.Kind, e.hpa.Namespace, e.hpa.Spec.ScaleTargetRef.Name)
}

// warn records the failure of a part of the evaluation that sends requests.
func (e *evaluation) warn(ctx context.Context, reason string, err error) {
	e.RecordFailure(ctx, failed(e.hpa, reason, err))
}

// report returns the status without conditions. It has no observedGeneration, since the result
// does not depend on the spec alone.
func (e *evaluation) report(current, desired int32, statuses []autoscalingv2.MetricStatus) {
	e.hpa.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		CurrentReplicas: current,
		DesiredReplicas: desired,
		LastScaleTime:   e.hpa.Status.LastScaleTime,
		CurrentMetrics:  statuses,
		Conditions:      e.hpa.Status.Conditions,
	}
}

// save writes the status if it has changed.
func (e *evaluation) save(ctx context.Context) error {
	if apiequality.Semantic.DeepEqual(*e.before, e.hpa.Status) {
		return nil
	}
	client := e.Client.AutoscalingV2().HorizontalPodAutoscalers(e.hpa.Namespace)
	_, err := client.UpdateStatus(ctx, e.hpa, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) && e.movesZero() {
		err = e.saveLive(ctx, client, err)
	}
	if err == nil {
		return nil
	}
	e.warn(ctx, "FailedUpdateStatus", err)
	return fmt.Errorf("updating the status of %s: %w", e.key, err)
}

// movesZero reports whether the evaluation changed who scaled the target to zero, which other processes know only from
// the status.
func (e *evaluation) movesZero() bool {
	return isTrue(e.before.Conditions, autoscalingv2.ScaledToZero) != e.hasCondition(autoscalingv2.ScaledToZero)
}

// saveLive writes the status to the autoscaler as it is now, unless it is another one.
func (e *evaluation) saveLive(
	ctx context.Context, client autoscalingclient.HorizontalPodAutoscalerInterface, conflict error,
) error {
	live, err := client.Get(ctx, e.hpa.Name, metav1.GetOptions{})
	if err != nil || live.UID != e.hpa.UID {
		return conflict
	}
	live.Status = e.hpa.Status
	_, err = client.UpdateStatus(ctx, live, metav1.UpdateOptions{})
	return err
}

// saveOrLog calls save at the end of a failed evaluation, and logs its error.
func (e *evaluation) saveOrLog(ctx context.Context) {
	if err := e.save(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to write the status after a failed evaluation", "key", e.key)
	}
}
