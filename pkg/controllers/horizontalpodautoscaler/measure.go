package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcev1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// noReplicas is the size of metrics that cannot be used.
const noReplicas = -1

// errNoMetrics is the error of an autoscaler without metrics, which the API server prevents by
// adding a default.
var errNoMetrics = errors.New("no metrics to scale on")

// measured is the result of all metrics of an autoscaler.
type measured struct {
	replicas int32  // noReplicas if there is no usable result
	name     string // of the metric that requires most
	statuses []autoscalingv2.MetricStatus
	err      error // of invalid metrics
}

// workload is the input of metrics: the target, its pods, and values shared between metrics.
type workload struct {
	size     sizes
	selector labels.Selector
	pods     []*corev1.Pod

	usageRead bool
	usage     []resourcev1beta1.PodMetrics
	usageErr  error
}

// measure returns the size that the metrics require, which is the largest of all.
func (e *evaluation) measure(ctx context.Context, scale *autoscalingv1.Scale) measured {
	if len(e.hpa.Spec.Metrics) == 0 {
		return measured{replicas: noReplicas, err: errNoMetrics}
	}
	w, err := e.findPods(scale)
	if err != nil {
		return measured{replicas: noReplicas, err: err}
	}
	all := measured{statuses: make([]autoscalingv2.MetricStatus, len(e.hpa.Spec.Metrics))}
	invalid := 0
	var first *metricError
	var firstErr error
	for i, spec := range e.hpa.Spec.Metrics {
		one, failed := e.measureOne(ctx, w, spec)
		if failed != nil {
			invalid++
			if first == nil {
				first, firstErr = failed, failed.wrapped()
			}
			continue
		}
		all.statuses[i] = one.status
		// A metric that requires zero replicas also counts; of several such metrics, the last.
		if all.replicas == 0 || one.replicas > all.replicas {
			all.replicas, all.name = one.replicas, one.name
		}
	}
	return e.judge(all, invalid, first, firstErr, scale.Spec.Replicas)
}

// judge decides whether valid metrics can be used although others are invalid: only if they do
// not require fewer replicas.
func (e *evaluation) judge(all measured, invalid int, first *metricError, firstErr error, current int32) measured {
	if invalid > 0 {
		all.err = fmt.Errorf("invalid metrics (%v invalid out of %v), first error is: %w",
			invalid, len(e.hpa.Spec.Metrics), firstErr)
	}
	if invalid > 0 && (invalid == len(e.hpa.Spec.Metrics) || all.replicas < current) {
		e.setFalse(autoscalingv2.ScalingActive, first.reason,
			"the HPA was unable to compute the replica count: %v", first.cause)
		all.replicas = noReplicas
		return all
	}
	all.replicas = max(all.replicas, 0)
	e.setTrue(autoscalingv2.ScalingActive, "ValidMetricFound",
		"the HPA was able to successfully calculate a replica count from %s", all.name)
	return all
}

// measureOne computes one metric and records it in the metrics of the controller.
func (e *evaluation) measureOne(
	ctx context.Context, w *workload, spec autoscalingv2.MetricSpec,
) (oneMetric, *metricError) {
	began := e.Clock.Now()
	one, failed := e.computeMetric(ctx, w, spec)
	var err error
	if failed != nil {
		err = failed.cause
		e.warn(ctx, failed.reason, err)
	}
	e.metrics.computed(actionOf(one.replicas, e.before.CurrentReplicas), err, spec.Type, e.Clock.Since(began))
	return one, failed
}

// findPods lists the pods of the target, which no other autoscaler may select.
func (e *evaluation) findPods(scale *autoscalingv1.Scale) (*workload, error) {
	if scale.Status.Selector == "" {
		e.selectNothing()
		err := errors.New("selector is required")
		e.Record(failed(e.hpa, "SelectorRequired", err))
		e.setFalse(autoscalingv2.ScalingActive, "InvalidSelector", "the HPA target's scale is missing a selector")
		return nil, err
	}
	selector, err := labels.Parse(scale.Status.Selector)
	if err != nil {
		e.selectNothing()
		return nil, e.refuse("InvalidSelector",
			fmt.Errorf("couldn't convert selector into a corresponding internal selector object: %w", err))
	}
	e.selectors.set(e.key, e.hpa.UID, selector)
	pods, err := e.podsBy(selector)
	if err != nil {
		return nil, err
	}
	if rivals := e.selectors.selecting(e.key.Namespace, pods); len(rivals) > 1 {
		return nil, e.refuse("AmbiguousSelector",
			fmt.Errorf("pods by selector %v are controlled by multiple HPAs: %v", scale.Status.Selector, rivals))
	}
	return &workload{
		size:     sizes{spec: scale.Spec.Replicas, status: scale.Status.Replicas},
		selector: selector,
		pods:     pods,
	}, nil
}

// selectNothing leaves the pods of the target to other autoscalers, until it has a selector again.
func (e *evaluation) selectNothing() { e.selectors.set(e.key, e.hpa.UID, labels.Nothing()) }

// refuse records why the pods of the target cannot be determined.
func (e *evaluation) refuse(reason string, err error) error {
	e.Record(failed(e.hpa, reason, err))
	e.setFalse(autoscalingv2.ScalingActive, reason, "%v", err)
	return err
}

// podsBy lists the selected pods by name, so that the same state gives the same messages.
func (e *evaluation) podsBy(selector labels.Selector) ([]*corev1.Pod, error) {
	pairs, selects := exactPairs(selector)
	if !selects {
		return nil, nil
	}
	pods, err := e.pods.By(e.key.Namespace, pairs)
	if err != nil {
		return nil, fmt.Errorf("unable to get pods while calculating replica count: %w", err)
	}
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !selector.Matches(labels.Set(p.Labels)) })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// podUsage reads the resource metrics of the pods, once for all metrics of the autoscaler.
func (e *evaluation) podUsage(ctx context.Context, w *workload) ([]resourcev1beta1.PodMetrics, error) {
	if !w.usageRead {
		w.usage, w.usageErr = e.source.podMetrics(ctx, e.key.Namespace, w.selector)
		w.usageRead = true
	}
	return w.usage, w.usageErr
}
