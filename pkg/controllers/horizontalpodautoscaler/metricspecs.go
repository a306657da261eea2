package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// oneMetric is the result of one metric.
type oneMetric struct {
	replicas int32
	name     string // as named in messages
	status   autoscalingv2.MetricStatus
}

// metricError is why a metric cannot be used.
type metricError struct {
	reason string
	prefix string // where it is reported together with others
	cause  error
}

// wrapped returns the error for the result of all metrics, where it no longer matters whether
// only the spec can fix it.
func (e *metricError) wrapped() error {
	cause := e.cause
	if spec := (specError{}); errors.As(cause, &spec) {
		cause = spec.error
	}
	if e.prefix == "" {
		return cause
	}
	return fmt.Errorf("%s: %w", e.prefix, cause)
}

// computingError is an error of the computation of a metric, as opposed to one of its spec. The
// prefix is added where it is reported together with others.
type computingError struct {
	prefix string
	error
}

// Unwrap returns the cause.
func (e computingError) Unwrap() error { return e.error }

// failedMetric returns the error of a metric. The prefix identifies the metric.
func failedMetric(reason, prefix string, err error) *metricError {
	if computing := (computingError{}); errors.As(err, &computing) {
		prefix, err = prefix+": "+computing.prefix, computing.error
	}
	return &metricError{reason: reason, prefix: prefix, cause: err}
}

var (
	errObjectTarget = errors.New(
		"invalid object metric source: neither a value target nor an average value target was set")
	errPodsTarget = errors.New(
		"invalid pods metric source: no average value target was set")
	errResourceTarget = errors.New("invalid resource metric source: " +
		"neither an average utilization target nor an average value (usage) target was set")
	errExternalTarget = errors.New(
		"invalid external metric source: neither a value target nor an average value target was set")
)

// computeMetric computes one metric.
func (e *evaluation) computeMetric(
	ctx context.Context, w *workload, spec autoscalingv2.MetricSpec,
) (oneMetric, *metricError) {
	var one oneMetric
	var err error
	var reason, prefix string
	switch {
	case spec.Type == autoscalingv2.ObjectMetricSourceType && spec.Object != nil:
		reason, prefix = "FailedGetObjectMetric", "failed to get object metric value"
		one, err = e.objectMetric(w, *spec.Object)
	case spec.Type == autoscalingv2.PodsMetricSourceType && spec.Pods != nil:
		reason, prefix = "FailedGetPodsMetric", "failed to get pods metric value"
		one, err = e.podsMetric(w, *spec.Pods)
	case spec.Type == autoscalingv2.ResourceMetricSourceType && spec.Resource != nil:
		reason = "FailedGetResourceMetric"
		prefix = fmt.Sprintf("failed to get %s resource metric value", spec.Resource.Name)
		one, err = e.resourceMetric(ctx, w, *spec.Resource)
	case spec.Type == autoscalingv2.ContainerResourceMetricSourceType && spec.ContainerResource != nil:
		reason = "FailedGetContainerResourceMetric"
		prefix = fmt.Sprintf("failed to get %s container metric value", spec.ContainerResource.Container)
		one, err = e.containerMetric(ctx, w, *spec.ContainerResource)
	case spec.Type == autoscalingv2.ExternalMetricSourceType && spec.External != nil:
		reason = "FailedGetExternalMetric"
		prefix = fmt.Sprintf("failed to get %s external metric value", spec.External.Metric.Name)
		one, err = e.externalMetric(w, *spec.External)
	default:
		reason = "InvalidMetricSourceType"
		err = specError{fmt.Errorf("unknown metric source type %q", spec.Type)}
	}
	if err != nil {
		return oneMetric{}, failedMetric(reason, prefix, err)
	}
	one.status.Type = spec.Type
	return one, nil
}

func (e *evaluation) tolerances() tolerances {
	return tolerancesOf(e.hpa.Spec.Behavior, e.config.tolerance, e.config.configurableTolerance)
}

func (e *evaluation) objectMetric(w *workload, source autoscalingv2.ObjectMetricSource) (oneMetric, error) {
	series, err := metav1.LabelSelectorAsSelector(source.Metric.Selector)
	if err != nil {
		return oneMetric{}, err
	}
	status := &autoscalingv2.ObjectMetricStatus{Metric: source.Metric, DescribedObject: source.DescribedObject}
	one := oneMetric{status: autoscalingv2.MetricStatus{Object: status}}
	read := func() (int64, error) {
		value, err := e.source.objectValue(e.key.Namespace, source.DescribedObject, source.Metric.Name, series)
		if err != nil {
			// The order of namespace, name and cause is that of upstream.
			return 0, fmt.Errorf("unable to get metric %s: %v on %s %s/%w", source.Metric.Name,
				source.DescribedObject.Kind, e.key.Namespace, source.DescribedObject.Name, err)
		}
		return value, nil
	}
	aim := source.Target
	switch {
	case aim.Type == autoscalingv2.ValueMetricType && aim.Value != nil:
		value, err := read()
		if err != nil {
			return oneMetric{}, err
		}
		one.name = fmt.Sprintf("%s metric %s", source.DescribedObject.Kind, source.Metric.Name)
		one.replicas, err = fromRatio(float64(value)/float64(milli(*aim.Value)), w.size, w.pods, e.tolerances())
		status.Current.Value = decimal(value)
		return one, err
	case aim.Type == autoscalingv2.AverageValueMetricType && aim.AverageValue != nil:
		value, err := read()
		if err != nil {
			return oneMetric{}, computingError{fmt.Sprintf("failed to get %s object metric", source.Metric.Name), err}
		}
		one.name = externalName(source.Metric)
		var share int64
		one.replicas, share = fromTotal(value, milli(*aim.AverageValue), w.size, e.tolerances())
		status.Current.AverageValue = decimal(share)
		return one, nil
	}
	return oneMetric{}, errObjectTarget
}

func (e *evaluation) podsMetric(w *workload, source autoscalingv2.PodsMetricSource) (oneMetric, error) {
	if source.Target.AverageValue == nil {
		return oneMetric{}, errPodsTarget
	}
	series, err := metav1.LabelSelectorAsSelector(source.Metric.Selector)
	if err != nil {
		return oneMetric{}, err
	}
	read, err := e.source.podSamples(e.key.Namespace, w.selector, source.Metric.Name, series)
	if err != nil {
		return oneMetric{}, fmt.Errorf("unable to get metric %s: %w", source.Metric.Name, err)
	}
	replicas, r, err := e.computePods(w, read, "", average(*source.Target.AverageValue))
	if err != nil {
		return oneMetric{}, err
	}
	return oneMetric{
		replicas: replicas,
		name:     "pods metric " + source.Metric.Name,
		status: autoscalingv2.MetricStatus{Pods: &autoscalingv2.PodsMetricStatus{
			Metric:  source.Metric,
			Current: autoscalingv2.MetricValueStatus{AverageValue: decimal(r.average)},
		}},
	}, nil
}

func (e *evaluation) resourceMetric(
	ctx context.Context, w *workload, source autoscalingv2.ResourceMetricSource,
) (oneMetric, error) {
	replicas, current, name, err := e.resourceUsage(ctx, w, source.Name, "", source.Target)
	status := &autoscalingv2.ResourceMetricStatus{Name: source.Name, Current: current}
	return oneMetric{replicas, name, autoscalingv2.MetricStatus{Resource: status}}, err
}

func (e *evaluation) containerMetric(
	ctx context.Context, w *workload, source autoscalingv2.ContainerResourceMetricSource,
) (oneMetric, error) {
	replicas, current, name, err := e.resourceUsage(ctx, w, source.Name, source.Container, source.Target)
	status := &autoscalingv2.ContainerResourceMetricStatus{
		Name: source.Name, Container: source.Container, Current: current,
	}
	return oneMetric{replicas, name, autoscalingv2.MetricStatus{ContainerResource: status}}, err
}

// resourceUsage computes a resource metric of whole pods, or of one container of each.
func (e *evaluation) resourceUsage(
	ctx context.Context, w *workload, name corev1.ResourceName, container string, aim autoscalingv2.MetricTarget,
) (int32, autoscalingv2.MetricValueStatus, string, error) {
	var none autoscalingv2.MetricValueStatus
	if aim.AverageValue == nil && aim.AverageUtilization == nil {
		return 0, none, "", errResourceTarget
	}
	kind := "usage"
	if aim.AverageValue == nil {
		kind = "utilization"
	}
	replicas, r, err := e.computeResource(ctx, w, name, container, aim)
	if err != nil {
		return 0, none, "", fmt.Errorf("failed to get %s %s: %w", name, kind, err)
	}
	current := autoscalingv2.MetricValueStatus{AverageValue: amountOf(name, r.average)}
	if aim.AverageValue != nil {
		return replicas, current, fmt.Sprintf("%s resource", name), nil
	}
	current.AverageUtilization = &r.utilization
	if container != "" {
		return replicas, current, fmt.Sprintf("%s container resource utilization (percentage of request)", name), nil
	}
	return replicas, current, fmt.Sprintf("%s resource utilization (percentage of request)", name), nil
}

func (e *evaluation) computeResource(
	ctx context.Context, w *workload, name corev1.ResourceName, container string, aim autoscalingv2.MetricTarget,
) (int32, reading, error) {
	pods, err := e.podUsage(ctx, w)
	if err != nil {
		return 0, reading{}, fmt.Errorf("unable to get metrics for resource %s: %w", name, err)
	}
	read := resourceSamples(pods, name, container)
	if aim.AverageValue != nil {
		return e.computePods(w, read, name, average(*aim.AverageValue))
	}
	return e.computePods(w, read, name, func() (goal, error) {
		requested, err := requestsOf(w.pods, name, container, e.config.podLevelResources)
		return utilizationGoal{percent: *aim.AverageUtilization, requests: requested}, err
	})
}

// average returns the goal of an amount for each pod.
func average(amount resource.Quantity) func() (goal, error) {
	return func() (goal, error) { return averageGoal(milli(amount)), nil }
}

// computePods computes a metric of pods. The goal is computed last, so that missing samples are
// reported before errors of the goal.
func (e *evaluation) computePods(
	w *workload, read samples, name corev1.ResourceName, aim func() (goal, error),
) (int32, reading, error) {
	if len(w.pods) == 0 {
		return 0, reading{}, errNoPods
	}
	start := startup{initialization: e.config.cpuInitializationPeriod, readinessDelay: e.config.initialReadinessDelay}
	groups := group(w.pods, read, name, start, e.now)
	known := groups.counted(read)
	if len(known) == 0 {
		return 0, reading{}, errNoSamples
	}
	g, err := aim()
	if err != nil {
		return 0, reading{}, err
	}
	return fromPods(known, groups, g, w.size.spec, e.tolerances())
}

func (e *evaluation) externalMetric(w *workload, source autoscalingv2.ExternalMetricSource) (oneMetric, error) {
	status := &autoscalingv2.ExternalMetricStatus{Metric: source.Metric}
	one := oneMetric{name: externalName(source.Metric), status: autoscalingv2.MetricStatus{External: status}}
	switch aim := source.Target; {
	case aim.AverageValue != nil:
		value, err := e.externalValue(source.Metric, true)
		if err != nil {
			return oneMetric{}, computingError{fmt.Sprintf("failed to get %s external metric", source.Metric.Name), err}
		}
		var share int64
		one.replicas, share = fromTotal(value, milli(*aim.AverageValue), w.size, e.tolerances())
		status.Current.AverageValue = decimal(share)
		return one, nil
	case aim.Value != nil:
		value, err := e.externalValue(source.Metric, false)
		if err == nil {
			one.replicas, err = fromRatio(float64(value)/float64(milli(*aim.Value)), w.size, w.pods, e.tolerances())
		}
		if err != nil {
			return oneMetric{}, computingError{"failed to get external metric " + source.Metric.Name, err}
		}
		status.Current.Value = decimal(value)
		return one, nil
	}
	return oneMetric{}, errExternalTarget
}

// externalValue reads the sum of the series of an external metric.
func (e *evaluation) externalValue(metric autoscalingv2.MetricIdentifier, shared bool) (int64, error) {
	series, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return 0, err
	}
	value, err := e.source.externalValue(e.key.Namespace, metric.Name, series, shared)
	if err != nil {
		return 0, fmt.Errorf("unable to get external metric %s/%s/%s: %w",
			e.key.Namespace, metric.Name, metric.Selector.String(), err)
	}
	return value, nil
}

// externalName returns the name of a metric that is shared by pods, external or not.
func externalName(metric autoscalingv2.MetricIdentifier) string {
	return fmt.Sprintf("external metric %s(%s)", metric.Name, metric.Selector.String())
}

func decimal(amount int64) *resource.Quantity {
	return resource.NewMilliQuantity(amount, resource.DecimalSI)
}

// amountOf formats an amount of a resource.
func amountOf(name corev1.ResourceName, amount int64) *resource.Quantity {
	if name == corev1.ResourceMemory {
		return resource.NewMilliQuantity(amount, resource.BinarySI)
	}
	return decimal(amount)
}
