package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	resourcev1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// metricsAPIs is a server of the three metrics APIs, behind the API server. It says what
// tests tell it.
type metricsAPIs struct {
	mu       sync.Mutex
	cpu      map[string]string // usage of each pod, by namespace
	custom   map[string]string // value, by namespace/resource/name/metric
	external map[string]string // value, by namespace/metric
}

// resourcesOf are what the APIs serve, as discovery tells.
var resourcesOf = map[string]metav1.APIResource{
	"metrics.k8s.io/v1beta1":          {Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
	"custom.metrics.k8s.io/v1beta2":   {Name: "services/hits", Kind: "MetricValueList", Namespaced: true, Verbs: metav1.Verbs{"get"}},
	"external.metrics.k8s.io/v1beta1": {Name: "queue", Kind: "ExternalMetricValueList", Namespaced: true, Verbs: metav1.Verbs{"get"}},
}

// serveMetricsAPIs starts the server and waits until the API server passes requests on to
// it. It is taken away at the end of the test.
func serveMetricsAPIs(t *testing.T) *metricsAPIs {
	t.Helper()
	m := &metricsAPIs{cpu: map[string]string{}, custom: map[string]string{}, external: map[string]string{}}
	server := httptest.NewTLSServer(m)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(address.Port(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}

	// The API server refuses to be sent to its own host by address, but not by name.
	namespace := cluster.Namespace(t)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	must.Get(admin.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}))(t)
	services := must.Get(dynamic.NewForConfig(cluster.AdminConfig()))(t).
		Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	for gv := range resourcesOf {
		m.register(t, services, gv, namespace, port)
	}
	return m
}

func (m *metricsAPIs) register(t *testing.T, services dynamic.ResourceInterface, gv, namespace string, port int64) {
	t.Helper()
	group, version, _ := strings.Cut(gv, "/")
	name := version + "." + group
	registration := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": group, "version": version, "insecureSkipTLSVerify": true,
			"groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"service": map[string]any{"namespace": namespace, "name": "metrics", "port": port},
		},
	}}
	must.Get(services.Create(t.Context(), registration, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if err := services.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	await.That(t, gv+" is served", func(context.Context) error {
		_, err := admin.Discovery().ServerResourcesForGroupVersion(gv)
		return err
	})
}

// ServeHTTP implements http.Handler.
func (m *metricsAPIs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 3 || parts[0] != "apis" {
		http.NotFound(w, r)
		return
	}
	gv, rest := parts[1]+"/"+parts[2], parts[3:]
	answer, err := m.answer(r, gv, rest)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (m *metricsAPIs) answer(r *http.Request, gv string, rest []string) (any, error) {
	served, ok := resourcesOf[gv]
	if !ok {
		return nil, fmt.Errorf("%s is not served", gv)
	}
	if len(rest) == 0 {
		return metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: gv, APIResources: []metav1.APIResource{served},
		}, nil
	}
	if len(rest) < 3 || rest[0] != "namespaces" {
		return nil, fmt.Errorf("no resource at %s", r.URL.Path)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch namespace := rest[1]; gv {
	case "metrics.k8s.io/v1beta1":
		return podMetrics(r, namespace, m.cpu[namespace])
	case "custom.metrics.k8s.io/v1beta2":
		return customMetrics(r, rest[1:], m.custom[strings.Join(rest[1:], "/")])
	default:
		return externalMetrics(m.external[namespace+"/"+rest[2]])
	}
}

// podMetrics tells the usage of every pod that matches.
func podMetrics(r *http.Request, namespace, cpu string) (any, error) {
	list := resourcev1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: "metrics.k8s.io/v1beta1"}, Items: []resourcev1beta1.PodMetrics{}}
	if cpu == "" {
		return list, nil
	}
	pods, err := admin.CoreV1().Pods(namespace).List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
	if err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		list.Items = append(list.Items, resourcev1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name, Labels: pod.Labels},
			Timestamp:  metav1.Now(),
			Containers: []resourcev1beta1.ContainerMetrics{{Name: "web", Usage: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}},
		})
	}
	return list, nil
}

// customMetrics tells the value of an object, or of every pod that matches.
func customMetrics(r *http.Request, path []string, value string) (any, error) {
	list := customv1beta2.MetricValueList{TypeMeta: metav1.TypeMeta{Kind: "MetricValueList", APIVersion: "custom.metrics.k8s.io/v1beta2"}, Items: []customv1beta2.MetricValue{}}
	if value == "" {
		return list, nil
	}
	if len(path) != 4 {
		return nil, fmt.Errorf("no metric at %v", path)
	}
	names := []string{path[2]}
	if path[2] == "*" {
		pods, err := admin.CoreV1().Pods(path[0]).List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
		if err != nil {
			return nil, err
		}
		names = nil
		for _, pod := range pods.Items {
			names = append(names, pod.Name)
		}
	}
	for _, name := range names {
		list.Items = append(list.Items, customv1beta2.MetricValue{
			DescribedObject: corev1.ObjectReference{Namespace: path[0], Name: name},
			Metric:          customv1beta2.MetricIdentifier{Name: path[3]},
			Timestamp:       metav1.Now(), Value: resource.MustParse(value),
		})
	}
	return list, nil
}

func externalMetrics(value string) (any, error) {
	list := externalv1beta1.ExternalMetricValueList{TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: "external.metrics.k8s.io/v1beta1"}, Items: []externalv1beta1.ExternalMetricValue{}}
	if value != "" {
		list.Items = append(list.Items, externalv1beta1.ExternalMetricValue{Timestamp: metav1.NewTime(time.Now()), Value: resource.MustParse(value)})
	}
	return list, nil
}

func (m *metricsAPIs) set(values map[string]string, key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values[key] = value
}
