package horizontalpodautoscaler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	resourcev1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourcefake "k8s.io/metrics/pkg/client/clientset/versioned/fake"
	customfake "k8s.io/metrics/pkg/client/custom_metrics/fake"
	externalfake "k8s.io/metrics/pkg/client/external_metrics/fake"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

var webKey = cache.NewObjectName("ns", "web")

// harness is a controller on fakes: a scale, and servers of the three metrics APIs.
type harness struct {
	*controllertest.Env
	c        *autoscalerController
	scale    autoscalingv1.Scale
	written  []int32                               // by PUTs of the scale that worked
	scaleErr func(verb string) error               // of requests for the scale
	usage    map[string]string                     // CPU of pods
	custom   map[string]string                     // custom metric of objects
	external []externalv1beta1.ExternalMetricValue // series
	requests []string                              // to the metrics APIs
	fail     map[string]error                      // by metrics API
}

var testConfig = config{
	concurrentSyncs: 1, syncPeriod: 15 * time.Second, downscaleStabilization: 5 * time.Minute, tolerance: 0.1,
	cpuInitializationPeriod: 5 * time.Minute, initialReadinessDelay: 30 * time.Second,
	configurableTolerance: true, podLevelResources: true,
}

// newHPA is an autoscaler of the Deployment web, for half of the CPU that its pods request.
func newHPA(edits ...func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: webKey.Namespace, Name: webKey.Name, UID: "u1"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    ptr.To[int32](1),
			MaxReplicas:    10,
			Metrics:        []autoscalingv2.MetricSpec{cpu(50)},
		},
	}
	return controllertest.Changed(hpa, edits...)
}

func cpu(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
	}}
}

func withMetrics(metrics ...autoscalingv2.MetricSpec) func(*autoscalingv2.HorizontalPodAutoscaler) {
	return func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.Metrics = metrics }
}

func newHarness(t testing.TB, config config, objects ...runtime.Object) *harness {
	t.Helper()
	h := &harness{
		Env: controllertest.New(t, objects...),
		scale: autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
			Spec:       autoscalingv1.ScaleSpec{Replicas: 3},
			Status:     autoscalingv1.ScaleStatus{Replicas: 3, Selector: "app=web"},
		},
		usage: map[string]string{}, custom: map[string]string{}, fail: map[string]error{},
	}
	h.Clock.SetTime(epoch)
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	h.Mapper = mapper
	h.c = newController(h.Env.Env, config, h.clients())
	h.Start(t)
	return h
}

func (h *harness) clients() clients {
	scales := &scalefake.FakeScaleClient{}
	scales.AddReactor("*", "*", h.answerScale)
	resources := resourcefake.NewSimpleClientset()
	resources.PrependReactor("list", "pods", h.answerResource)
	custom := &customfake.FakeCustomMetricsClient{}
	custom.AddReactor("get", "*", h.answerCustom)
	external := &externalfake.FakeExternalMetricsClient{}
	external.AddReactor("list", "*", h.answerExternal)
	return clients{scales: scales, apiVersions: neverChanging{}, source: metricSource{
		resource: resources.MetricsV1beta1(), custom: custom, external: external,
	}}
}

type neverChanging struct{}

func (neverChanging) PreferredVersion() (schema.GroupVersion, error) {
	return v1beta2.SchemeGroupVersion, nil
}
func (neverChanging) Invalidate() {}

func (h *harness) answerScale(a clienttesting.Action) (bool, runtime.Object, error) {
	if h.scaleErr != nil {
		if err := h.scaleErr(a.GetVerb()); err != nil {
			return true, nil, err
		}
	}
	if update, ok := a.(clienttesting.UpdateAction); ok {
		h.scale.Spec.Replicas = update.GetObject().(*autoscalingv1.Scale).Spec.Replicas
		h.written = append(h.written, h.scale.Spec.Replicas)
	}
	return true, h.scale.DeepCopy(), nil
}

func (h *harness) answerResource(clienttesting.Action) (bool, runtime.Object, error) {
	h.requests = append(h.requests, "resource")
	list := &resourcev1beta1.PodMetricsList{}
	for pod, amount := range h.usage {
		list.Items = append(list.Items, resourcev1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod, Labels: map[string]string{"app": "web"}},
			Timestamp:  metav1.NewTime(epoch), Window: metav1.Duration{Duration: time.Minute},
			Containers: []resourcev1beta1.ContainerMetrics{{Name: "main", Usage: corev1.ResourceList{
				"cpu": resource.MustParse(amount), "memory": resource.MustParse("100Mi"),
			}}},
		})
	}
	return true, list, h.fail["resource"]
}

func (h *harness) answerCustom(a clienttesting.Action) (bool, runtime.Object, error) {
	get := a.(customfake.GetForAction)
	h.requests = append(h.requests, strings.Join([]string{"custom", get.GetNamespace(), get.GetResource().Resource, get.GetName(), get.GetMetricName()}, " "))
	list := &v1beta2.MetricValueList{}
	for object, amount := range h.custom {
		list.Items = append(list.Items, v1beta2.MetricValue{
			DescribedObject: corev1.ObjectReference{Name: object}, Timestamp: metav1.NewTime(epoch), Value: resource.MustParse(amount),
		})
	}
	if err := h.fail["custom"]; err != nil {
		return true, nil, err
	}
	return true, list, nil
}

func (h *harness) answerExternal(a clienttesting.Action) (bool, runtime.Object, error) {
	h.requests = append(h.requests, fmt.Sprintf("external %s %s", a.GetNamespace(), a.GetResource().Resource))
	if err := h.fail["external"]; err != nil {
		return true, nil, err
	}
	return true, &externalv1beta1.ExternalMetricValueList{Items: h.external}, nil
}

func (h *harness) series(values ...string) {
	h.external = nil
	for _, v := range values {
		h.external = append(h.external, externalv1beta1.ExternalMetricValue{Value: resource.MustParse(v)})
	}
}

// evaluate runs one evaluation and returns the autoscaler as it is stored then.
func (h *harness) evaluate(t testing.TB) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	t.Helper()
	err := h.c.reconcile(h.Context(), webKey)
	return controllertest.MustStored[*autoscalingv2.HorizontalPodAutoscaler](t, h.Env, webKey.Namespace, webKey.Name), err
}

func condition(hpa *autoscalingv2.HorizontalPodAutoscaler, kind autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	for _, c := range hpa.Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return "none"
}

// withPods adds pods p0, p1, … to the objects.
func withPods(count int, objects ...runtime.Object) []runtime.Object {
	for _, pod := range podsNamed(count) {
		objects = append(objects, pod)
	}
	return objects
}

type edit = func(*autoscalingv2.HorizontalPodAutoscaler)

// sync waits until the cache shows the autoscaler.
func (h *harness) sync(t testing.TB, want *autoscalingv2.HorizontalPodAutoscaler) {
	t.Helper()
	controllertest.Eventually(t, "the cache follows", func() bool {
		got, err := h.c.autoscalers.HorizontalPodAutoscalers("ns").Get("web")
		return err == nil && len(got.Status.Conditions) == len(want.Status.Conditions) && got.Status.DesiredReplicas == want.Status.DesiredReplicas
	})
}
