package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	resourcev1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/manager"
)

// usage is what pods use of a CPU, by namespace. It is served by the API of metrics.
var usage sync.Map

// Use has the pods a and b of the run use so much of a CPU, or pods that are named: web-1=80m web-2=10m. Nothing is
// known of pods if it is empty.
func Use(cpu string) Action {
	return func(_ context.Context, w *world) error {
		usage.Store(w.namespace, cpu)
		return nil
	}
}

// metricsServer serves metrics until the tests end.
var metricsServer = sync.OnceValue(func() *httptest.Server { return httptest.NewTLSServer(http.HandlerFunc(serveMetrics)) })

const metricsAPI = "metrics.k8s.io/v1beta1"

// serveMetrics answers what the API server passes on: which resources there are, and a list of pods.
func serveMetrics(rw http.ResponseWriter, r *http.Request) {
	var answer any = metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: metricsAPI,
		APIResources: []metav1.APIResource{{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}}},
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	rest, ofAPI := strings.CutPrefix(path, "/apis/"+metricsAPI)
	namespace, ofPods := strings.CutSuffix(strings.TrimPrefix(rest, "/namespaces/"), "/pods")
	switch {
	case ofAPI && ofPods:
		answer = metricsOf(namespace, r.URL.Query().Get("labelSelector"))
	case !ofAPI || rest != "":
		http.NotFound(rw, r)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(answer) // who asks may be gone
}

// metricsOf returns what the selected pods of a run use. The label app of a pod is its name up to the dash.
func metricsOf(namespace, labelSelector string) *resourcev1beta1.PodMetricsList {
	list := &resourcev1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: metricsAPI}, Items: []resourcev1beta1.PodMetrics{}}
	cpu, _ := usage.Load(namespace)
	text, _ := cpu.(string)
	if text != "" && !strings.Contains(text, "=") {
		text = "a=" + text + " b=" + text
	}
	selector, err := labels.Parse(labelSelector)
	if err != nil {
		return list
	}
	for one := range strings.FieldsSeq(text) {
		name, cpu, _ := strings.Cut(one, "=")
		app, _, named := strings.Cut(name, "-")
		if !named {
			app = "web"
		}
		set := labels.Set{"app": app}
		if !selector.Matches(set) {
			continue
		}
		list.Items = append(list.Items, resourcev1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: set},
			Timestamp:  metav1.Now(),
			Containers: []resourcev1beta1.ContainerMetrics{{Name: "web", Usage: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}},
		})
	}
	return list
}

// ServeMetrics has the API server serve metrics of pods, from now on until it ends.
func ServeMetrics(ctx context.Context, w *world) error {
	address, err := url.Parse(metricsServer().URL)
	if err != nil {
		return fmt.Errorf("the address of the server: %w", err)
	}
	// The API server refuses to be sent to its own host by address, but not by name.
	elsewhere := &world{client: w.client, mapper: w.mapper, namespace: metav1.NamespaceDefault}
	for _, text := range []string{
		"{apiVersion: v1, kind: Service, metadata: {name: metrics}, spec: {type: ExternalName, externalName: localhost}}",
		fmt.Sprintf(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
  service: {namespace: default, name: metrics, port: %s}
`, address.Port()),
	} {
		if err := Create(text)(ctx, elsewhere); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return await.Nil(ctx, patience, func(context.Context) error {
		_, err := w.admin.Discovery().ServerResourcesForGroupVersion(metricsAPI)
		return err
	})
}

// autoscalerWithMetrics scales a Deployment of which nobody makes pods: two are there throughout.
func autoscalerWithMetrics() Scenario {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2" + template
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: web}}
spec:
  nodeName: node-%d
  terminationGracePeriodSeconds: 0
  containers: [{name: web, image: "web:1", resources: {requests: {cpu: 100m}}}]
`
	const autoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 10
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
  behavior:
    scaleUp: {policies: [{type: Pods, value: 10, periodSeconds: 1}]}
    scaleDown: {stabilizationWindowSeconds: 0}
`
	shown := func(active, reason string) Condition {
		const path = "{.status.conditions[?(@.type=='ScalingActive')]."
		return Has("horizontalpodautoscalers", "web", path+"status}", active, path+"reason}", reason)
	}
	scaledTo := func(n, percent int) []Condition {
		return []Condition{
			Has("deployments", "web", "{.spec.replicas}", fmt.Sprint(n)), shown("True", "ValidMetricFound"),
			Has("horizontalpodautoscalers", "web", "{.status.desiredReplicas}", fmt.Sprint(n), "{.status.currentReplicas}", fmt.Sprint(n),
				"{.status.currentMetrics[*].resource.current.averageUtilization}", fmt.Sprint(percent)),
		}
	}
	return Scenario{
		Name:        "horizontalpodautoscaler-metrics",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.HorizontalPodAutoscaler.Enabled} },
		Configure: func(c *manager.Config) {
			settings := &c.Controllers.HorizontalPodAutoscaler
			settings.SyncPeriod = &metav1.Duration{Duration: time.Second}
			settings.CPUInitializationPeriod, settings.InitialReadinessDelay = &metav1.Duration{}, &metav1.Duration{}
		},
		Clock:  fast, // it looks every second
		Before: []Action{ServeMetrics},
		Kinds:  []schema.GroupVersionResource{autoscalers, deployments, pods},
		Steps: []Step{
			{
				"create pods",
				[]Action{Use("80m"), Create(deployment), Create(fmt.Sprintf(pod, "a", 0)), Create(fmt.Sprintf(pod, "b", 1))},
				[]Condition{isReady("a"), isReady("b")},
			},
			{"create an autoscaler", []Action{Create(autoscaler)}, scaledTo(4, 80)},
			{"use more", []Action{Use("200m")}, scaledTo(8, 200)},
			{"use nearly nothing", []Action{Use("10m")}, scaledTo(1, 10)},
			{"have no metrics", []Action{Use("")}, []Condition{shown("False", "FailedGetResourceMetric")}},
			{"want none", []Action{Patch("deployments", "web", `{"spec":{"replicas":0}}`)}, []Condition{shown("False", "ScalingDisabled")}},
			{"want more than the most", []Action{Use("50m"), Patch("deployments", "web", `{"spec":{"replicas":20}}`)}, scaledTo(10, 50)},
		},
	}
}
