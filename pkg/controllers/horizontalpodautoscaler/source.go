package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	resourcev1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"
)

// defaultWindow is the window of a custom metric that does not report its own.
const defaultWindow = 60 * time.Second

// metricSource reads the three metrics APIs.
type metricSource struct {
	resource resourceclient.PodMetricsesGetter
	custom   custom_metrics.CustomMetricsClient
	external external_metrics.ExternalMetricsClient
}

// podMetrics lists the usage of resources of the selected pods.
func (s metricSource) podMetrics(
	ctx context.Context, namespace string, selector labels.Selector,
) ([]resourcev1beta1.PodMetrics, error) {
	list, err := s.resource.PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from resource metrics API")
	}
	return list.Items, nil
}

// resourceSamples returns the samples of a resource from pod metrics: of one container if it is
// named, otherwise of all. A pod of which a container lacks the resource has no sample.
func resourceSamples(pods []resourcev1beta1.PodMetrics, resource corev1.ResourceName, container string) samples {
	all := make(samples, len(pods))
	for i := range pods {
		if amount, ok := usage(&pods[i], resource, container); ok {
			all[pods[i].Name] = sample{amount: amount, at: pods[i].Timestamp.Time, window: pods[i].Window.Duration}
		}
	}
	return all
}

func usage(pod *resourcev1beta1.PodMetrics, resource corev1.ResourceName, container string) (sum int64, ok bool) {
	for _, c := range pod.Containers {
		if container != "" && c.Name != container {
			continue
		}
		used, has := c.Usage[resource]
		if !has {
			return 0, false
		}
		sum, ok = plus(sum, milli(used)), true
	}
	return sum, ok
}

// podSamples reads a custom metric of the selected pods.
func (s metricSource) podSamples(
	namespace string, pods labels.Selector, metric string, series labels.Selector,
) (samples, error) {
	list, err := s.custom.NamespacedMetrics(namespace).GetForObjects(schema.GroupKind{Kind: "Pod"}, pods, metric, series)
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from custom metrics API")
	}
	all := make(samples, len(list.Items))
	for _, item := range list.Items {
		window := defaultWindow
		if item.WindowSeconds != nil {
			window = time.Duration(*item.WindowSeconds) * time.Second
		}
		all[item.DescribedObject.Name] = sample{amount: milli(item.Value), at: item.Timestamp.Time, window: window}
	}
	return all, nil
}

// objectValue reads a custom metric of one object. For a Namespace, that of the autoscaler is
// read, regardless of the name.
func (s metricSource) objectValue(
	namespace string, object autoscalingv2.CrossVersionObjectReference, metric string, series labels.Selector,
) (int64, error) {
	kind := schema.FromAPIVersionAndKind(object.APIVersion, object.Kind).GroupKind()
	client, name := custom_metrics.MetricsInterface(nil), object.Name
	if kind == (schema.GroupKind{Kind: "Namespace"}) {
		client, name = s.custom.RootScopedMetrics(), namespace
	} else {
		client = s.custom.NamespacedMetrics(namespace)
	}
	value, err := client.GetForObject(kind, name, metric, series)
	if err != nil {
		return 0, fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	}
	return milli(value.Value), nil
}

// externalValue sums the series of an external metric, which may be for pods to share.
func (s metricSource) externalValue(namespace, metric string, series labels.Selector, shared bool) (int64, error) {
	list, err := s.external.NamespacedMetrics(namespace).List(metric, series)
	if err != nil {
		return 0, fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	}
	if len(list.Items) == 0 {
		return 0, errors.New("no metrics returned from external metrics API")
	}
	return sumOf(list.Items, shared), nil
}

// sumOf adds up series, saturating at the maximum. A shared sum also saturates when it becomes
// negative, as upstream.
func sumOf(series []externalv1beta1.ExternalMetricValue, shared bool) (sum int64) {
	for _, item := range series {
		value := milli(item.Value)
		if value > 0 && sum > math.MaxInt64-value {
			return math.MaxInt64
		}
		sum = plus(sum, value)
		if shared && sum < 0 {
			return math.MaxInt64
		}
	}
	return sum
}
