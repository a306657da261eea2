package horizontalpodautoscaler

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/rest"
)

// metricsAPIs answers requests for the scale of the Deployment web and for metrics, and notes them.
type metricsAPIs struct {
	mu       sync.Mutex
	requests []string
}

// ServeHTTP implements http.Handler.
func (m *metricsAPIs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	request := r.Method + " " + r.URL.Path
	if selector := r.URL.Query().Get("labelSelector"); selector != "" {
		request += "?" + selector
	}
	m.requests = append(m.requests, request)
	w.Header().Set("Content-Type", "application/json")
	group := strings.Split(r.URL.Path, "/")
	apiVersion := strings.Join(group[2:4], "/")
	switch {
	case r.Method == http.MethodPut:
		_, _ = io.Copy(w, r.Body)
	case group[2] == "apps":
		fmt.Fprint(w, `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"namespace":"ns","name":"web"},
			"spec":{"replicas":1},"status":{"replicas":1,"selector":"app=web"}}`)
	case group[2] == "metrics.k8s.io":
		fmt.Fprintf(w, `{"kind":"PodMetricsList","apiVersion":%q,"items":[{"metadata":{"namespace":"ns","name":"p0"},
			"timestamp":"2026-01-02T03:04:05Z","window":"1m","containers":[{"name":"main","usage":{"cpu":"1"}}]}]}`, apiVersion)
	case group[2] == "custom.metrics.k8s.io":
		fmt.Fprintf(w, `{"kind":"MetricValueList","apiVersion":%q,"items":[{
			"describedObject":{"kind":"Pod","namespace":"ns","name":"p0"},"timestamp":"2026-01-02T03:04:05Z","value":"1"}]}`, apiVersion)
	default:
		fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":%q,
			"items":[{"metricName":"queue","value":"1"}]}`, apiVersion)
	}
}

// taken returns the requests since it was called last.
func (m *metricsAPIs) taken() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.requests
	m.requests = nil
	return all
}

// serveCustomMetrics makes discovery report versions of custom metrics, the preferred one first.
func (h *harness) serveCustomMetrics(t testing.TB, versions ...string) {
	t.Helper()
	h.serveScaleOfDeployments(t)
	fake := h.Fake.Discovery().(*discoveryfake.FakeDiscovery)
	fake.Resources = slices.DeleteFunc(fake.Resources, func(list *metav1.APIResourceList) bool {
		return strings.HasPrefix(list.GroupVersion, "custom.metrics.k8s.io/")
	})
	for _, version := range versions {
		fake.Resources = append(fake.Resources, &metav1.APIResourceList{GroupVersion: "custom.metrics.k8s.io/" + version})
	}
}

// Pins HPA-15 and HPA-16.
func TestRequestsOfAnEvaluation(t *testing.T) {
	for name, tc := range map[string]struct {
		served []string
		used   string
	}{
		"the preferred version":                       {[]string{"v1beta1", "v1beta2"}, "v1beta1"},
		"the first known one":                         {[]string{"v1", "v1beta2", "v1beta1"}, "v1beta2"},
		"the first known one, although not preferred": {[]string{"v1alpha1", "v1beta1", "v1beta2"}, "v1beta1"},
	} {
		t.Run(name, func(t *testing.T) {
			apis := &metricsAPIs{}
			server := httptest.NewServer(apis)
			defer server.Close()
			h := newHarness(t, testConfig, withPods(1, newHPA(withMetrics(cpu(50), perPod("5"), external("queue", "2", ""))))...)
			h.serveCustomMetrics(t, tc.served...)
			mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion, corev1.SchemeGroupVersion})
			mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			h.Mapper, h.RESTConfig = mapper, &rest.Config{Host: server.URL}
			var err error
			if h.c.clients, err = newClients(h.Env.Env); err != nil {
				t.Fatal(err)
			}
			evaluated := func(version string) {
				t.Helper()
				if _, err := h.evaluate(t); err != nil {
					t.Fatal(err)
				}
				want := []string{
					"GET /apis/apps/v1/namespaces/ns/deployments/web/scale",
					"GET /apis/metrics.k8s.io/v1beta1/namespaces/ns/pods?app=web",
					"GET /apis/custom.metrics.k8s.io/" + version + "/namespaces/ns/pods/*/rps?app=web",
					"GET /apis/external.metrics.k8s.io/v1beta1/namespaces/ns/queue",
					"PUT /apis/apps/v1/namespaces/ns/deployments/web/scale",
				}
				if got := apis.taken(); !slices.Equal(got, want) {
					t.Errorf("requests are %q, want %q", got, want)
				}
			}
			h.Requests()
			evaluated(tc.used)
			if got := h.WriteVerbs(); len(got) == 0 || h.Writes()[len(got)-1].GetSubresource() != "status" {
				t.Errorf("writes are %v, want that of the status", h.Writes())
			}
			h.serveCustomMetrics(t, "v1beta2")
			evaluated(tc.used)
			h.c.apiVersions.Invalidate()
			evaluated("v1beta2")
		})
	}
}

// The scale is read each time: one that a cache shows could be outdated. Pins HPA-57 and HPA-60.
func TestCostOfAnEvaluation(t *testing.T) {
	h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(cpu(50), external("queue", "1", ""))))...)
	h.usage = map[string]string{"p0": "500m", "p1": "500m", "p2": "500m"}
	h.series("3")
	var scales []string
	h.scaleErr = func(verb string) error {
		scales = append(scales, verb)
		return nil
	}
	cost := func(ofScale ...string) {
		t.Helper()
		scales, h.requests = nil, nil
		h.Requests()
		hpa, err := h.evaluate(t)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(scales, ofScale) || !slices.Equal(h.requests, []string{"resource", "external ns queue"}) {
			t.Errorf("requests are %q of the scale and %q of metrics", scales, h.requests)
		}
		h.WantRequests(t, "update horizontalpodautoscalers/status web")
		if hpa.Status.CurrentReplicas != h.scale.Spec.Replicas {
			t.Errorf("found %d replicas, want %d", hpa.Status.CurrentReplicas, h.scale.Spec.Replicas)
		}
		h.Clock.Step(testConfig.syncPeriod)
	}
	cost("get")
	h.scale.Spec.Replicas, h.scale.Status.Replicas = 4, 4
	h.c.histories.of(webKey, "u1").recommendations = []recommendation{{4, h.Clock.Now().Add(-time.Second)}}
	cost("get")
}

// Entries of metrics that failed stay empty, in the place of their metric, and conditions stay where they were first.
// Pins HPA-52.
func TestOrderInTheStatus(t *testing.T) {
	limited := func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		hpa.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{
			{Type: autoscalingv2.ScalingLimited, Status: corev1.ConditionTrue},
		}
	}
	metrics := withMetrics(external("a", "1", ""), cpu(50), external("b", "1", ""))
	h := newHarness(t, testConfig, withPods(3, newHPA(metrics, limited))...)
	h.series("3")
	hpa, err := h.evaluate(t)
	if err == nil {
		t.Error("no error, although there is no usage")
	}
	var got []string
	for _, m := range hpa.Status.CurrentMetrics {
		text := string(m.Type)
		if m.External != nil {
			text += " " + m.External.Metric.Name
		}
		got = append(got, text)
	}
	for _, c := range hpa.Status.Conditions {
		got = append(got, string(c.Type))
	}
	want := []string{"External a", "", "External b", "ScalingLimited", "AbleToScale", "ScalingActive"}
	if !slices.Equal(got, want) {
		t.Errorf("the status has %q, want %q", got, want)
	}
}
