package horizontalpodautoscaler

import (
	"math"
	"math/big"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcev1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Pins HPA-71.
func TestMilli(t *testing.T) {
	for q, want := range map[string]int64{
		"1.5": 1500, "-1.5": -1500, "100u": 1, "9Pi": math.MaxInt64, "10Pi": math.MaxInt64, "-10Pi": -math.MaxInt64, "1e30": math.MaxInt64,
		"8Pi": 8 << 50 * 1000, "9223372036854775807m": math.MaxInt64, "9223372036854775806999u": math.MaxInt64,
		"-9223372036854775808m": -math.MaxInt64, "7E": math.MaxInt64,
	} {
		if got := milli(resource.MustParse(q)); got != want {
			t.Errorf("%s: got %d", q, got)
		}
	}
}

// Pins HPA-71.
func TestFractionsSaturate(t *testing.T) {
	for _, tc := range []struct{ total, want int64 }{
		{math.MaxInt64, math.MaxInt64}, {-math.MaxInt64, -math.MaxInt64}, {7, 350}, {-7, -350},
	} {
		if got := fraction(big.NewInt(tc.total), 100, big.NewInt(2)); got != tc.want {
			t.Errorf("of %d: got %d", tc.total, got)
		}
	}
}

// Pins HPA-71.
func TestUsageOfContainersSaturates(t *testing.T) {
	pod := &resourcev1beta1.PodMetrics{}
	for range 2 {
		pod.Containers = append(pod.Containers, resourcev1beta1.ContainerMetrics{Usage: corev1.ResourceList{"memory": resource.MustParse("6Pi")}})
	}
	if got, ok := usage(pod, "memory", ""); !ok || got != math.MaxInt64 {
		t.Errorf("got %d, %v", got, ok)
	}
}

// A load that does not fit scales up to the maximum. Pins HPA-71.
func TestHugeValuesScaleUp(t *testing.T) {
	for name, metric := range map[string]autoscalingv2.MetricSpec{
		"object, value":     object("Service", autoscalingv2.ValueMetricType, "", "1Pi"),
		"object, average":   object("Service", autoscalingv2.AverageValueMetricType, "500Ti", ""),
		"external, value":   external("queue", "", "1Pi"),
		"external, average": external("queue", "500Ti", ""),
		"pods":              perPod("1Pi"),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(metric), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
				hpa.Spec.MaxReplicas = 5
			}))...)
			h.custom = map[string]string{"thing": "10Pi"}
			if metric.Pods != nil {
				h.custom = map[string]string{"p0": "10Pi", "p1": "10Pi", "p2": "10Pi"}
			}
			h.series("10Pi")
			if _, err := h.evaluate(t); err != nil || len(h.written) != 1 || h.written[0] != 5 {
				t.Errorf("wrote %v, error is %v", h.written, err)
			}
		})
	}
}
