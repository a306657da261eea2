package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins HPA-2, HPA-4, HPA-5, HPA-6, HPA-7, HPA-8 and HPA-9.
func TestConfigOf(t *testing.T) {
	c := &controller.Config{}
	v1beta1.SetDefaults(c)
	if got, want := configOf(c), (config{
		concurrentSyncs: 5, syncPeriod: 15 * time.Second, downscaleStabilization: 5 * time.Minute, tolerance: 0.1,
		cpuInitializationPeriod: 5 * time.Minute, initialReadinessDelay: 30 * time.Second,
		configurableTolerance: true, scaleToZero: false, podLevelResources: true,
	}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// metric returns a value of the registry, or -1.
func (h *harness) metric(t testing.TB, name string, want map[string]string) float64 {
	t.Helper()
	families, err := h.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != subsystem+"_"+name {
			continue
		}
		for _, m := range f.Metric {
			got := map[string]string{}
			for _, l := range m.Label {
				got[l.GetName()] = l.GetValue()
			}
			if fmt.Sprint(got) == fmt.Sprint(want) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

// Pins HPA-45.
func TestMetrics(t *testing.T) {
	h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(external("a", "2", ""), cpu(50)), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		hpa.Status.CurrentReplicas = 9
	}))...)
	h.series("12")
	if _, err := h.evaluate(t); err == nil {
		t.Fatal("cpu must fail")
	}
	scaled := map[string]string{"action": "scale_up", "error": "internal"}
	for _, tc := range []struct {
		name   string
		labels map[string]string
		want   float64
	}{
		{"reconciliations_total", scaled, 1},
		{"reconciliation_duration_seconds", scaled, 1},
		// Compared with the status, which is that of the evaluation before.
		{"metric_computation_total", map[string]string{"action": "scale_down", "error": "none", "metric_type": "External"}, 1},
		{"metric_computation_duration_seconds", map[string]string{"action": "none", "error": "internal", "metric_type": "Resource"}, 1},
		{"num_horizontal_pod_autoscalers", nil, 1},
		{"desired_replicas", map[string]string{"namespace": "ns", "hpa_name": "web"}, 6},
	} {
		if tc.labels == nil {
			tc.labels = map[string]string{}
		}
		if got := h.metric(t, tc.name, tc.labels); got != tc.want {
			t.Errorf("%s%v: got %v", tc.name, tc.labels, got)
		}
	}
}

// Pins HPA-18 and HPA-64.
func TestAnAutoscalerThatIsGoneIsForgotten(t *testing.T) {
	h := newHarness(t, testConfig, newHPA())
	if _, err := h.evaluate(t); err == nil {
		t.Fatal("there are no metrics")
	}
	gone := cache.NewObjectName("ns", "gone")
	h.c.histories.of(gone, "u").seed(3, epoch, before(epoch))
	h.c.metrics.desired(gone, 3)
	if err := h.c.reconcile(h.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if _, ok := h.c.histories.byKey[gone]; ok {
		t.Error("its history is still there")
	}
	if got := h.metric(t, "desired_replicas", map[string]string{"namespace": "ns", "hpa_name": "gone"}); got != -1 {
		t.Errorf("its series is still there: %v", got)
	}
}

// Pins HPA-13.
func TestADeletedAutoscalerSelectsNothing(t *testing.T) {
	h := newHarness(t, testConfig, newHPA())
	h.registered(t, "web", "app=web")
	if err := h.Client.AutoscalingV2().HorizontalPodAutoscalers("ns").Delete(h.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the autoscaler is not counted any more", func() bool {
		return h.metric(t, "num_horizontal_pod_autoscalers", map[string]string{}) == 0
	})
	if h.c.selectors.isKnown(webKey, "u1") || len(h.c.selectors.filed) != 0 {
		t.Errorf("still there: %v", h.c.selectors.filed)
	}
}

// Pins HPA-61.
func TestAHistoryBelongsToOneUID(t *testing.T) {
	all := newHistories()
	all.of(webKey, "old").seed(9, epoch, before(epoch))
	if got := all.of(webKey, "new"); len(got.recommendations) != 0 {
		t.Errorf("inherited %v", got.recommendations)
	}
}

// Pins HPA-17.
func TestEvaluationsAreOnePeriodApart(t *testing.T) {
	h := newHarness(t, testConfig, newHPA())
	h.scale.Spec.Replicas = 0
	evaluated := make(chan time.Time, 10)
	evaluations := 0
	h.scaleErr = func(string) error {
		evaluated <- h.Clock.Now()
		if evaluations++; evaluations == 2 {
			return errors.New("failures do not change the pace")
		}
		return nil
	}
	started := h.Clock.Now()
	h.Run(t, h.c)
	for i := range 3 {
		due := started.Add(time.Duration(i+1) * testConfig.syncPeriod)
		h.EventuallyAsTimePasses(t, "it is evaluated", time.Second, func() bool {
			select {
			case at := <-evaluated:
				if at.Before(due) {
					t.Fatalf("evaluated %v early", due.Sub(at))
				}
				return true
			default:
				return false
			}
		})
	}
}

// An instance that is replaced after less than a period does not postpone evaluations: what it has waited counts.
//
// Pins HPA-70.
func TestWaitingIsHandedOver(t *testing.T) {
	const waited = 10 * time.Second
	for name, since := range map[string]func(*histories){
		"since the last evaluation": func(h *histories) {
			h.seen(webKey, "u1", epoch.Add(-time.Hour))
			h.evaluated(webKey, "u1", epoch.Add(-waited))
		},
		"since it was first seen": func(h *histories) {
			h.seen(webKey, "u1", epoch.Add(-waited))
			h.seen(webKey, "u1", epoch.Add(-time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			left := newHistories()
			since(left)
			h := newHarness(t, testConfig, newHPA())
			h.Succession.Leave(handover{selectors: newSelectors(), histories: left, at: epoch})
			h.Run(t, h.c)
			due := epoch.Add(testConfig.syncPeriod - waited)
			controllertest.Eventually(t, "it is evaluated once the rest of the period has passed", func() bool {
				keys := h.c.loop.Keys(func(string) bool { return true })
				return len(keys) == 1 && keys[0].Until.Equal(due)
			})
		})
	}
}

// stopped runs the controller for no time.
func (h *harness) stopped(t testing.TB) {
	t.Helper()
	ctx, stop := context.WithCancel(h.Context())
	stop()
	if err := h.c.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryOfAnotherAutoscalerIsDropped pins that memory belongs to a UID.
// Pins HPA-61.
func TestMemoryOfAnotherAutoscalerIsDropped(t *testing.T) {
	first := newHarness(t, testConfig, newHPA())
	first.registered(t, "web", "app=web")
	first.c.histories.of(webKey, "u1").seed(9, epoch, before(epoch))
	first.stopped(t)

	second := newHarness(t, testConfig, newHPA(func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.UID = "another" }))
	second.Succession.Leave(first.c.HandOver())
	second.stopped(t)
	if got := second.c.histories.byKey[webKey]; got == nil || got.uid != "another" || len(got.recommendations) != 0 {
		t.Errorf("history %+v", got)
	}
	if got := second.c.selectors.selecting("ns", []*corev1.Pod{aPod("p")}); len(got) != 0 {
		t.Errorf("selectors %v", got)
	}
}

// TestAfterABreakTheSizeFoundIsARecommendation pins R3 for what was handed over: a workload
// that another process scaled up meanwhile is not scaled down before its window is over.
// Pins HPA-62.
func TestAfterABreakTheSizeFoundIsARecommendation(t *testing.T) {
	for name, tc := range map[string]struct {
		pause time.Duration
		wrote []int32
	}{
		"within a period": {testConfig.syncPeriod, []int32{1}},
		"after a break":   {time.Hour, nil},
	} {
		first := newHarness(t, testConfig, newHPA())
		first.c.histories.of(webKey, "u1").seed(1, epoch.Add(-time.Second), before(epoch))
		first.stopped(t)

		second := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(external("queue", "5", ""))))...)
		second.Succession.Leave(first.c.HandOver())
		second.Clock.Step(tc.pause)
		second.stopped(t)
		second.series("4")
		if _, err := second.evaluate(t); err != nil || !slices.Equal(second.written, tc.wrote) {
			t.Errorf("%s: %v, wrote %v", name, err, second.written)
		}
	}
}

// The metrics could not be read for a while. What they say first is not followed at once, whatever the window. Pins HPA-83.
func TestAfterMetricsThatCouldNotBeReadTheSizeFoundIsARecommendation(t *testing.T) {
	for name, tc := range map[string]struct {
		outage time.Duration
		target bool // it is the target that cannot be read
		wait   time.Duration
		wrote  []int32
	}{
		"HPA-83: for longer than the window":             {outage: time.Hour},
		"HPA-83: the target, for longer than the window": {outage: time.Hour, target: true},
		"HPA-83: the window after that is over":          {outage: time.Hour, wait: testConfig.downscaleStabilization + time.Second, wrote: []int32{1}},
		"HPA-83: there was no evaluation that failed":    {wait: time.Hour, wrote: []int32{1}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(external("queue", "5", ""))))...)
			h.series("15")
			if _, err := h.evaluate(t); err != nil {
				t.Fatal(err)
			}
			if tc.outage > 0 {
				down := errors.New("down")
				if h.fail["external"] = down; tc.target {
					h.scaleErr = func(string) error { return down }
				}
				if _, err := h.evaluate(t); err == nil {
					t.Fatal("it does not fail")
				}
				h.fail, h.scaleErr = map[string]error{}, nil
				h.Clock.Step(tc.outage)
				h.series("4")
				if _, err := h.evaluate(t); err != nil || len(h.written) > 0 {
					t.Fatalf("at once: %v, wrote %v", err, h.written)
				}
			}
			h.series("4")
			h.Clock.Step(tc.wait)
			if _, err := h.evaluate(t); err != nil || !slices.Equal(h.written, tc.wrote) {
				t.Errorf("%v, wrote %v, want %v", err, h.written, tc.wrote)
			}
		})
	}
}

// Nothing was evaluated while the namespace was paused. Pins HPA-80.
func TestAfterAPauseTheSizeFoundIsARecommendation(t *testing.T) {
	for name, paused := range map[string][]string{"its namespace": {"ns"}, "another one": {"other"}} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(external("queue", "5", ""))))...)
			h.series("15")
			h.Run(t, h.c)
			evaluations := func() uint64 { return h.c.loop.Inspect().Reconciled }
			h.EventuallyAsTimePasses(t, "it is evaluated", time.Second, func() bool { return evaluations() == 1 })
			h.Pauses.Set(paused)
			isPaused := paused[0] == webKey.Namespace
			if isPaused {
				h.Clock.Step(time.Hour)
				controllertest.Eventually(t, "it is held back", func() bool { return h.c.loop.Inspect().Held == 1 })
			}
			h.series("4")
			h.Pauses.Set(nil)
			if !isPaused {
				h.Clock.Step(time.Hour)
			}
			controllertest.Eventually(t, "it is evaluated", func() bool { return evaluations() == 2 })
			if scaled := len(h.written) > 0; scaled == isPaused {
				t.Errorf("wrote %v", h.written)
			}
		})
	}
}

// Pins HPA-62.
func TestMemoryIsHandedOver(t *testing.T) {
	first := newHarness(t, testConfig, newHPA())
	first.registered(t, "web", "app=web")
	first.registered(t, "deleted", "app=web")
	first.c.histories.of(webKey, "u1").seed(9, epoch, before(epoch))
	first.c.histories.of(cache.NewObjectName("ns", "deleted"), "u2").seed(9, epoch, before(epoch))
	first.stopped(t)

	second := newHarness(t, testConfig, newHPA())
	handed := first.c.HandOver()
	second.Succession.Leave(handed)
	second.stopped(t)
	if got := second.c.histories.of(webKey, "u1").recommendations; len(got) != 1 || got[0].replicas != 9 {
		t.Errorf("recommendations %v", got)
	}
	if len(second.c.histories.byKey) != 1 {
		t.Errorf("histories of deleted autoscalers: %v", second.c.histories.byKey)
	}
	if got := second.c.selectors.selecting("ns", []*corev1.Pod{aPod("p")}); !slices.Equal(got, []cache.ObjectName{webKey}) {
		t.Errorf("selectors %v", got)
	}
}

// Pins HPA-14 and HPA-65.
func TestSelectors(t *testing.T) {
	s := newSelectors()
	parse := func(text string) labels.Selector {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return selector
	}
	pods := []*corev1.Pod{aPod("p", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web", "tier": "front"} })}
	for name, selector := range map[string]string{
		"exact": "app=web", "both": "app=web,tier=front", "one-of-one": "app in (web)", "set": "app in (web,api)",
		"exists": "tier", "not": "app!=api", "other": "app=api", "half": "app=web,tier=back", "absent": "!app",
	} {
		key := cache.NewObjectName("ns", name)
		s.register(key, "u")
		s.set(key, "u", parse(selector))
	}
	s.set(cache.NewObjectName("ns", "unregistered"), "u", parse("app=web"))
	s.register(cache.NewObjectName("ns", "unseen"), "u")
	elsewhere := cache.NewObjectName("elsewhere", "exact")
	s.register(elsewhere, "u")
	s.set(elsewhere, "u", parse("app=web"))

	names := func() (all []string) {
		for _, key := range s.selecting("ns", pods) {
			all = append(all, key.Name)
		}
		return all
	}
	if got, want := names(), []string{"both", "exact", "exists", "not", "one-of-one", "set"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	s.set(cache.NewObjectName("ns", "exact"), "u", parse("app=api"))
	for _, name := range []string{"both", "exists", "not", "set"} {
		s.remove(cache.NewObjectName("ns", name))
	}
	if got := names(); !slices.Equal(got, []string{"one-of-one"}) {
		t.Errorf("after changes: %v", got)
	}
	if n := s.remove(cache.NewObjectName("ns", "never")); n != 7 {
		t.Errorf("%d autoscalers known", n)
	}
	s.set(cache.NewObjectName("ns", "half"), "u", labels.Everything())
	if got := names(); !slices.Equal(got, []string{"half", "one-of-one"}) {
		t.Errorf("a selector of everything: %v", got)
	}
	again := cache.NewObjectName("ns", "half")
	s.register(again, "another")
	s.set(again, "u", labels.Everything())
	if got := names(); !slices.Equal(got, []string{"one-of-one"}) {
		t.Errorf("one that was created again: %v", got)
	}
	s.register(again, "another")
	s.set(again, "another", labels.Everything())
	s.register(again, "another")
	if got := names(); !slices.Equal(got, []string{"half", "one-of-one"}) {
		t.Errorf("one that was created again, with its own selector: %v", got)
	}
}

// Pins HPA-63.
func TestRequestsEndWithTheRightToAct(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/quick" {
			fmt.Fprint(w, "answer")
			return
		}
		close(arrived)
		<-release
	}))
	defer server.Close()
	defer close(release)
	fenced := make(chan struct{})
	client := &http.Client{Transport: endingTransport{next: http.DefaultTransport, end: fenced}}
	response, err := client.Get(server.URL + "/quick")
	if err != nil || response.Body.Close() != nil {
		t.Fatal(err)
	}
	go func() {
		<-arrived
		close(fenced)
	}()
	if _, err := client.Get(server.URL + "/slow"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestMakingClientsSendsNothing(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.URL.Path) }))
	defer server.Close()
	h := newHarness(t, testConfig)
	h.RESTConfig = &rest.Config{Host: server.URL}
	if _, err := newClients(h.Env.Env); err != nil || len(asked) != 0 {
		t.Errorf("%v, asked %v", err, asked)
	}
	h.RESTConfig = &rest.Config{Host: "::bad::"}
	if _, err := newClients(h.Env.Env); err == nil || !strings.Contains(err.Error(), "scale subresources") {
		t.Errorf("got %v", err)
	}
}

// TestScalesOfCustomResourcesAreReadAsJSON pins that targets which are served as JSON only
// can be scaled, whatever the encoding of the other clients.
// Pins HPA-67.
func TestScalesOfCustomResourcesAreReadAsJSON(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept"); got != runtime.ContentTypeJSON {
			http.Error(w, "not served as "+got, http.StatusNotAcceptable)
			return
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		fmt.Fprint(w, `{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":7}}`)
	}))
	defer server.Close()
	h := newHarness(t, testConfig)
	h.RESTConfig = &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf,
	}}
	c := must.Get(newClients(h.Env.Env))(t)
	h.serveScaleOfDeployments(t)
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	got, err := c.scales.Scales("ns").Update(t.Context(), schema.GroupResource{Group: "apps", Resource: "deployments"}, scale, metav1.UpdateOptions{})
	if err != nil || got.Spec.Replicas != 7 {
		t.Errorf("got %v, %v", got, err)
	}
}

// serveScaleOfDeployments makes discovery report the scale subresource.
func (h *harness) serveScaleOfDeployments(t testing.TB) {
	t.Helper()
	fake, ok := h.Fake.Discovery().(*discoveryfake.FakeDiscovery)
	if !ok {
		t.Fatal("discovery is no fake")
	}
	fake.Resources = append(fake.Resources, &metav1.APIResourceList{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
		{Name: "deployments/scale", Group: "autoscaling", Version: "v1", Kind: "Scale"},
	}})
}

// BenchmarkEvaluation evaluates one autoscaler among many, each with a pod of its own.
func BenchmarkEvaluation(b *testing.B) {
	for _, count := range []int{100, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			objects := []runtime.Object{newHPA(withMetrics(external("queue", "4", "")))}
			for i := range count {
				name := fmt.Sprint("other", i)
				objects = append(objects,
					newHPA(func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Name = name }),
					aPod(name, func(p *corev1.Pod) { p.Labels = map[string]string{"app": name} }))
			}
			h := newHarness(b, testConfig, withPods(3, objects...)...)
			for i := range count {
				name := fmt.Sprint("other", i)
				h.registered(b, name, "app="+name)
			}
			h.series("12")
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				hpa, err := h.c.autoscalers.HorizontalPodAutoscalers("ns").Get("web")
				if err != nil {
					b.Fatal(err)
				}
				e := h.c.newEvaluation(webKey, hpa.DeepCopy(), epoch)
				if w, err := e.decide(b.Context(), &h.scale); err != nil || w.replicas != 3 {
					b.Fatalf("%+v, %v", w, err)
				}
			}
		})
	}
}
