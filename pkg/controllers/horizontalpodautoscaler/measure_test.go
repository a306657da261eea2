package horizontalpodautoscaler

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	resourcev1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/ptr"
)

func quantity(s string) *resource.Quantity {
	if s == "" {
		return nil
	}
	return ptr.To(resource.MustParse(s))
}

func external(name, average, value string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: name},
		Target: autoscalingv2.MetricTarget{AverageValue: quantity(average), Value: quantity(value)},
	}}
}

func object(kind string, targetType autoscalingv2.MetricTargetType, average, value string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: kind, Name: "thing"},
		Metric:          autoscalingv2.MetricIdentifier{Name: "hits", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		Target:          autoscalingv2.MetricTarget{Type: targetType, AverageValue: quantity(average), Value: quantity(value)},
	}}
}

func perPod(average string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "rps"},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantity(average)},
	}}
}

func usageOf(name corev1.ResourceName, average string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: name, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantity(average)},
	}}
}

func container(name string, percent int32, average string) autoscalingv2.MetricSpec {
	target := autoscalingv2.MetricTarget{AverageValue: quantity(average)}
	if percent > 0 {
		target.AverageUtilization = &percent
	}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
		Name: "cpu", Container: name, Target: target,
	}}
}

// registered makes another autoscaler known with its selector.
func (h *harness) registered(t testing.TB, name, selector string) {
	t.Helper()
	parsed, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	key := cache.NewObjectName("ns", name)
	uid := types.UID(name)
	if name == webKey.Name {
		uid = "u1"
	}
	h.c.selectors.register(key, uid)
	h.c.selectors.set(key, uid, parsed)
}

func TestKindsOfMetrics(t *testing.T) {
	const selectorText = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
	for name, tc := range map[string]struct {
		metric autoscalingv2.MetricSpec
		wrote  []int32 // from 3 replicas
		told   string  // the name of the metric
		asked  string
		status string // current value
	}{
		"HPA-30a: object, value":            {object("Service", "Value", "", "5"), []int32{6}, "Service metric hits", "custom ns services thing hits", "value 10"},
		"HPA-30, HPA-30a: object, average":  {object("Service", "AverageValue", "2500m", ""), []int32{4}, "external metric hits(" + selectorText + ")", "custom ns services thing hits", "average 3334m"},
		"HPA-30a: object, namespace":        {object("Namespace", "Value", "", "5"), []int32{6}, "Namespace metric hits", "custom  namespaces ns hits", "value 10"},
		"HPA-30b: pods":                     {perPod("5"), []int32{6}, "pods metric rps", "custom ns pods * rps", "average 10"},
		"HPA-30d: external, average":        {external("queue", "2", ""), []int32{6}, "external metric queue(nil)", "external ns queue", "average 4"},
		"HPA-30d: external, value":          {external("queue", "", "6"), []int32{6}, "external metric queue(nil)", "external ns queue", "value 12"},
		"HPA-30d: external, average first":  {external("queue", "2", "1"), []int32{6}, "external metric queue(nil)", "external ns queue", "average 4"},
		"HPA-30c: cpu, average":             {usageOf("cpu", "500m"), []int32{6}, "cpu resource", "resource", "average 1"},
		"HPA-30c, HPA-51: memory, average":  {usageOf("memory", "50Mi"), []int32{6}, "memory resource", "resource", "average 100Mi"},
		"HPA-30c: cpu, utilization":         {cpu(50), []int32{6}, "cpu resource utilization (percentage of request)", "resource", "average 1, 100%"},
		"HPA-30c: container, utilization":   {container("main", 50, ""), []int32{6}, "cpu container resource utilization (percentage of request)", "resource", "average 1, 100%"},
		"HPA-30c: container, average":       {container("main", 0, "500m"), []int32{6}, "cpu resource", "resource", "average 1"},
		"HPA-30c: average over utilization": {container("main", 1, "500m"), []int32{6}, "cpu resource", "resource", "average 1"},
	} {
		h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(tc.metric)))...)
		h.usage = map[string]string{"p0": "1", "p1": "1", "p2": "1"}
		h.custom = map[string]string{"thing": "10"}
		if tc.metric.Type == autoscalingv2.PodsMetricSourceType {
			h.custom = map[string]string{"p0": "10", "p1": "10", "p2": "10"}
		}
		h.series("7", "5")
		hpa, err := h.evaluate(t)
		if err != nil || !slices.Equal(h.written, tc.wrote) || !slices.Equal(h.requests, []string{tc.asked}) {
			t.Errorf("%s: %v, wrote %v, asked %q", name, err, h.written, h.requests)
			continue
		}
		if got := condition(hpa, autoscalingv2.ScalingActive); !strings.HasSuffix(got, " from "+tc.told) {
			t.Errorf("%s: %s", name, got)
		}
		if got := tellStatus(hpa.Status.CurrentMetrics[0]); got != string(tc.metric.Type)+" "+tc.status {
			t.Errorf("%s: status %s", name, got)
		}
	}
}

// tellStatus writes the current values of a metric.
func tellStatus(m autoscalingv2.MetricStatus) string {
	var v autoscalingv2.MetricValueStatus
	switch {
	case m.Object != nil:
		v = m.Object.Current
	case m.Pods != nil:
		v = m.Pods.Current
	case m.Resource != nil:
		v = m.Resource.Current
	case m.ContainerResource != nil:
		v = m.ContainerResource.Current
	case m.External != nil:
		v = m.External.Current
	}
	var parts []string
	if v.Value != nil {
		parts = append(parts, "value "+v.Value.String())
	}
	if v.AverageValue != nil {
		parts = append(parts, "average "+v.AverageValue.String())
	}
	if v.AverageUtilization != nil {
		parts = append(parts, itoa(*v.AverageUtilization)+"%")
	}
	return string(m.Type) + " " + strings.Join(parts, ", ")
}

// Pins HPA-28, HPA-29, HPA-30f and HPA-38.
func TestInvalidMetrics(t *testing.T) {
	down := errors.New("down")
	unknown := autoscalingv2.MetricSpec{Type: "Magic"}
	bad := perPod("1")
	invalid := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}}
	bad.Pods.Metric.Selector = invalid
	badObject, badExternal := object("Service", "AverageValue", "5", ""), external("queue", "1", "")
	badObject.Object.Metric.Selector, badExternal.External.Metric.Selector = invalid, invalid
	for name, tc := range map[string]struct {
		metric autoscalingv2.MetricSpec
		reason string
		text   string
		prefix string
		spec   bool // of the computation of the metric
	}{
		"object average":              {object("Service", "AverageValue", "5", ""), "FailedGetObjectMetric", "unable to get metric hits: Service on ns thing/unable to fetch metrics from custom metrics API: down", "failed to get object metric value: failed to get hits object metric: ", false},
		"HPA-30: object selector":     {badObject, "FailedGetObjectMetric", `"?" is not a valid label selector operator`, "failed to get object metric value: ", false},
		"external value":              {external("queue", "", "1"), "FailedGetExternalMetric", "unable to get external metric ns/queue/nil: unable to fetch metrics from external metrics API: down", "failed to get queue external metric value: failed to get external metric queue: ", false},
		"HPA-30: external selector":   {badExternal, "FailedGetExternalMetric", `"?" is not a valid label selector operator`, "failed to get queue external metric value: failed to get queue external metric: ", false},
		"object":                      {object("Service", "Value", "", "5"), "FailedGetObjectMetric", "unable to get metric hits: Service on ns thing/unable to fetch metrics from custom metrics API: down", "failed to get object metric value: ", false},
		"object target":               {object("Service", "Value", "5", ""), "FailedGetObjectMetric", "invalid object metric source: neither a value target nor an average value target was set", "failed to get object metric value: ", false},
		"pods":                        {perPod("5"), "FailedGetPodsMetric", "unable to get metric rps: unable to fetch metrics from custom metrics API: down", "failed to get pods metric value: ", false},
		"HPA-30: pods selector":       {bad, "FailedGetPodsMetric", `"?" is not a valid label selector operator`, "failed to get pods metric value: ", false},
		"resource":                    {cpu(50), "FailedGetResourceMetric", "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: down", "failed to get cpu resource metric value: ", false},
		"resource average":            {usageOf("memory", "1"), "FailedGetResourceMetric", "failed to get memory usage: unable to get metrics for resource memory: unable to fetch metrics from resource metrics API: down", "failed to get memory resource metric value: ", false},
		"container":                   {container("main", 50, ""), "FailedGetContainerResourceMetric", "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: down", "failed to get main container metric value: ", false},
		"container target":            {container("main", 0, ""), "FailedGetContainerResourceMetric", "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set", "failed to get main container metric value: ", false},
		"external":                    {external("queue", "1", ""), "FailedGetExternalMetric", "unable to get external metric ns/queue/nil: unable to fetch metrics from external metrics API: down", "failed to get queue external metric value: failed to get queue external metric: ", false},
		"external target":             {external("queue", "", ""), "FailedGetExternalMetric", "invalid external metric source: neither a value target nor an average value target was set", "failed to get queue external metric value: ", false},
		"HPA-30e: of an unknown type": {unknown, "InvalidMetricSourceType", `unknown metric source type "Magic"`, "", true},
	} {
		h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(tc.metric)))...)
		h.fail = map[string]error{"resource": down, "custom": down, "external": down}
		hpa, err := h.evaluate(t)
		all := "invalid metrics (1 invalid out of 1), first error is: " + tc.prefix + tc.text
		if err == nil || !strings.HasSuffix(err.Error(), all) {
			t.Errorf("%s: %v", name, err)
		}
		// M4: a reconciliation is never counted as failed for its metrics' sake.
		counted := map[string]string{"action": "none", "error": "internal"}
		if got := h.metric(t, "reconciliations_total", counted); got != 1 {
			t.Errorf("%s: the reconciliation is not counted as an internal error", name)
		}
		if counted["metric_type"] = string(tc.metric.Type); tc.spec {
			counted["error"] = "spec"
		}
		if got := h.metric(t, "metric_computation_total", counted); got != 1 {
			t.Errorf("%s: the computation is not counted as an error of the kind %s", name, counted["error"])
		}
		if got := condition(hpa, autoscalingv2.ScalingActive); got != "False "+tc.reason+": the HPA was unable to compute the replica count: "+tc.text {
			t.Errorf("%s: %s", name, got)
		}
		if got, want := h.RecordedEvents(), []string{"Warning " + tc.reason + " " + tc.text, "Warning FailedComputeMetricsReplicas " + all}; !slices.Equal(got, want) {
			t.Errorf("%s: events %q, want %q", name, got, want)
		}
		if m := hpa.Status.CurrentMetrics; len(m) != 1 || m[0].Type != "" {
			t.Errorf("%s: the entry of a failed metric must be empty: %+v", name, m)
		}
	}
}

// Pins HPA-38.
func TestEmptyAnswers(t *testing.T) {
	for want, metric := range map[string]autoscalingv2.MetricSpec{
		"no metrics returned from resource metrics API": cpu(50),
		"no metrics returned from custom metrics API":   perPod("1"),
		"no metrics returned from external metrics API": external("queue", "1", ""),
	} {
		h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(metric)))...)
		if _, err := h.evaluate(t); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Pins HPA-34.
func TestNoPodsAndNoSamples(t *testing.T) {
	h := newHarness(t, testConfig, newHPA(withMetrics(perPod("1"))))
	h.custom = map[string]string{"p9": "10"}
	if _, err := h.evaluate(t); !errors.Is(err, errNoPods) {
		t.Errorf("without pods: %v", err)
	}
	pending := aPod("p0", phase(corev1.PodPending))
	h = newHarness(t, testConfig, newHPA(withMetrics(perPod("1"))), pending)
	h.custom = map[string]string{"p0": "10"}
	if _, err := h.evaluate(t); !errors.Is(err, errNoSamples) {
		t.Errorf("with a pending pod: %v", err)
	}
}

// TestReadyPodsCannotBeCounted pins M6 and what M4 puts in front of it.
// Pins HPA-30f and HPA-32.
func TestReadyPodsCannotBeCounted(t *testing.T) {
	const text = "unable to calculate ready pods: no pods returned by selector while calculating replica count"
	for prefix, metric := range map[string]autoscalingv2.MetricSpec{
		"failed to get object metric value: ":                                              object("Service", "Value", "", "5"),
		"failed to get queue external metric value: failed to get external metric queue: ": external("queue", "", "1"),
	} {
		h := newHarness(t, testConfig, newHPA(withMetrics(metric)))
		h.custom = map[string]string{"thing": "10"}
		h.series("9")
		hpa, err := h.evaluate(t)
		if !errors.Is(err, errNoPods) {
			t.Errorf("%s: %v", prefix, err)
		}
		if got := condition(hpa, autoscalingv2.ScalingActive); !strings.HasSuffix(got, "the HPA was unable to compute the replica count: "+text) {
			t.Errorf("%s: %s", prefix, got)
		}
		if got := h.RecordedEvents(); len(got) != 2 || !strings.HasSuffix(got[1], "first error is: "+prefix+text) {
			t.Errorf("%s: %q", prefix, got)
		}
	}
}

// TestRequestsAreReadLast pins M8: what the pods and their samples lack is told before what
// the pods do not request.
// Pins HPA-34.
func TestRequestsAreReadLast(t *testing.T) {
	unrequested := func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil }
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"no samples that count": {aPod("p0", unrequested, phase(corev1.PodPending)), errNoSamples.Error()},
		"samples that count":    {aPod("p0", unrequested), "missing request for cpu in container main of Pod p0"},
	} {
		h := newHarness(t, testConfig, newHPA(), tc.pod)
		h.usage = map[string]string{"p0": "1"}
		if _, err := h.evaluate(t); err == nil || !strings.HasSuffix(err.Error(), "failed to get cpu utilization: "+tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeveralMetrics(t *testing.T) {
	for name, tc := range map[string]struct {
		metrics []autoscalingv2.MetricSpec
		series  string
		wrote   []int32
		active  string
		fails   bool
	}{
		"HPA-28: the largest wins":                  {[]autoscalingv2.MetricSpec{external("a", "4", ""), external("b", "2", "")}, "12", []int32{6}, "external metric b(nil)", false},
		"HPA-28: the first of equals":               {[]autoscalingv2.MetricSpec{external("a", "2", ""), external("b", "2", "")}, "12", []int32{6}, "external metric a(nil)", false},
		"HPA-28, HPA-48: the last of zeros":         {[]autoscalingv2.MetricSpec{external("a", "2", ""), external("b", "2", "")}, "0", nil, "external metric b(nil)", false}, // M2
		"HPA-29: an invalid one beside":             {[]autoscalingv2.MetricSpec{cpu(50), external("b", "2", "")}, "12", []int32{6}, "external metric b(nil)", true},
		"HPA-29: no down on partial data":           {[]autoscalingv2.MetricSpec{external("b", "6", ""), cpu(50)}, "12", nil, "False FailedGetResourceMetric", true},
		"HPA-29, HPA-48: partial data, no change":   {[]autoscalingv2.MetricSpec{external("b", "4", ""), cpu(50)}, "12", nil, "external metric b(nil)", true},
		"HPA-28, HPA-29: the first of the failures": {[]autoscalingv2.MetricSpec{{Type: "Magic"}, cpu(50)}, "12", nil, "False InvalidMetricSourceType", true},
	} {
		h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(tc.metrics...)))...)
		h.fail["resource"] = errors.New("down")
		h.series(tc.series)
		hpa, err := h.evaluate(t)
		if (err != nil) != tc.fails || !slices.Equal(h.written, tc.wrote) || !strings.Contains(condition(hpa, autoscalingv2.ScalingActive), tc.active) {
			t.Errorf("%s: %v, wrote %v, %s", name, err, h.written, condition(hpa, autoscalingv2.ScalingActive))
		}
	}
}

// Pins HPA-59.
func TestResourceMetricsAreReadOnce(t *testing.T) {
	h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(cpu(50), usageOf("memory", "1Gi"), container("main", 50, ""))))...)
	h.usage = map[string]string{"p0": "1", "p1": "1", "p2": "1"}
	if _, err := h.evaluate(t); err != nil || !slices.Equal(h.requests, []string{"resource"}) {
		t.Errorf("%v, asked %q", err, h.requests)
	}
}

// Pins HPA-66.
func TestAnAutoscalerWithoutMetricsIsLeftAlone(t *testing.T) {
	h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics()))...)
	if _, err := h.evaluate(t); !errors.Is(err, errNoMetrics) || h.written != nil {
		t.Errorf("%v, wrote %v", err, h.written)
	}
}

// TestExternalSumSaturates pins M4.
// Pins HPA-30d.
func TestExternalSumSaturates(t *testing.T) {
	series := func(values ...int64) (all []externalv1beta1.ExternalMetricValue) {
		for _, v := range values {
			all = append(all, externalv1beta1.ExternalMetricValue{Value: *resource.NewMilliQuantity(v, resource.DecimalSI)})
		}
		return all
	}
	for name, tc := range map[string]struct {
		series         []int64
		value, average int64
	}{
		"just fits":           {[]int64{math.MaxInt64 - 1, 1}, math.MaxInt64, math.MaxInt64},
		"too much":            {[]int64{math.MaxInt64 - 1, 5}, math.MaxInt64, math.MaxInt64},
		"less in the end":     {[]int64{5, -2}, 3, 3},
		"negative for once":   {[]int64{-2, 5}, 3, math.MaxInt64},
		"negative in the end": {[]int64{5, -7}, -2, math.MaxInt64},
		"HPA-71: too little":  {[]int64{-math.MaxInt64, -5}, -math.MaxInt64, math.MaxInt64},
	} {
		if got := sumOf(series(tc.series...), false); got != tc.value {
			t.Errorf("%s: the value is %d", name, got)
		}
		if got := sumOf(series(tc.series...), true); got != tc.average {
			t.Errorf("%s: the value to be shared is %d", name, got)
		}
	}
}

// Pins HPA-38.
func TestResourceSamples(t *testing.T) {
	pod := func(name string, containers ...string) resourcev1beta1.PodMetrics {
		m := resourcev1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, c := range containers {
			name, amount, _ := strings.Cut(c, "=")
			usage := corev1.ResourceList{}
			if amount != "" {
				usage["cpu"] = resource.MustParse(amount)
			}
			m.Containers = append(m.Containers, resourcev1beta1.ContainerMetrics{Name: name, Usage: usage})
		}
		return m
	}
	pods := []resourcev1beta1.PodMetrics{pod("whole", "a=1", "b=2"), pod("lacks", "a=1", "b"), pod("empty")}
	if got := resourceSamples(pods, "cpu", ""); len(got) != 1 || got["whole"].amount != 3000 {
		t.Errorf("of pods: %v", got)
	}
	if got := resourceSamples(pods, "cpu", "a"); len(got) != 2 || got["whole"].amount != 1000 || got["lacks"].amount != 1000 {
		t.Errorf("of containers: %v", got)
	}
}
