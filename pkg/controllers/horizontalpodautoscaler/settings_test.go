package horizontalpodautoscaler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	configuration "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
)

// Pins HPA-4, HPA-5, HPA-6, HPA-7, HPA-8 and HPA-9.
func TestSettings(t *testing.T) {
	c := v1beta1.NewDefault()
	hpa := &c.Controllers.HorizontalPodAutoscaler
	hpa.ConcurrentSyncs, hpa.Tolerance = ptr.To[int32](7), ptr.To(0.25)
	hpa.SyncPeriod = &metav1.Duration{Duration: time.Second}
	hpa.DownscaleStabilization = &metav1.Duration{Duration: 2 * time.Second}
	hpa.CPUInitializationPeriod = &metav1.Duration{Duration: 3 * time.Second}
	hpa.InitialReadinessDelay = &metav1.Duration{Duration: 4 * time.Second}
	want := config{
		concurrentSyncs: 7, syncPeriod: time.Second, downscaleStabilization: 2 * time.Second, tolerance: 0.25,
		cpuInitializationPeriod: 3 * time.Second, initialReadinessDelay: 4 * time.Second,
		configurableTolerance: true, podLevelResources: true,
	}
	if got := Descriptor().Value(c); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Pins HPA-72.
func TestSettingsOutOfRange(t *testing.T) {
	for setting, want := range map[string]string{
		"concurrentSyncs: 0":           "must be 1 to 1000, not 0",
		"concurrentSyncs: 1000":        "",
		"concurrentSyncs: 1001":        "must be 1 to 1000, not 1001",
		"syncPeriod: 0s":               "must be 1s to 1h, not 0s",
		"syncPeriod: 2h":               "must be 1s to 1h, not 2h",
		"downscaleStabilization: 0s":   "",
		"downscaleStabilization: 2h":   "must be 0s to 1h, where 0s means not at all, not 2h",
		"tolerance: 0":                 "",
		"tolerance: 1.1":               "must be 0 to 1, not 1.1",
		"cpuInitializationPeriod: 0s":  "",
		"cpuInitializationPeriod: 25h": "must be 0s to 24h, where 0s means not at all, not 25h",
		"initialReadinessDelay: 0s":    "",
		"initialReadinessDelay: 25h":   "must be 0s to 24h, where 0s means not at all, not 25h",
		"initialReadinessDelay: -1s":   "must be 0s to 24h, where 0s means not at all, not -1s",
	} {
		text := "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n" +
			"controllers: {horizontal-pod-autoscaler-controller: {" + setting + "}}\n"
		_, err := configuration.Load("x.yaml", []byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
	}
}

// Each setting has its effect, whatever its default is.
func TestSettingsHaveEffect(t *testing.T) {
	settings := func(edit func(*config)) config {
		c := testConfig
		edit(&c)
		return c
	}
	stabilization := func(window time.Duration) config {
		return settings(func(c *config) { c.downscaleStabilization = window })
	}
	tolerance := settings(func(c *config) { c.tolerance = 0.5 })
	startup := func(initialization, readiness time.Duration) config {
		return settings(func(c *config) { c.cpuInitializationPeriod, c.initialReadinessDelay = initialization, readiness })
	}
	behavior := func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		down := &autoscalingv2.HPAScalingRules{Policies: []autoscalingv2.HPAScalingPolicy{percentPolicy(100, 15)}}
		hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: down}
	}
	queue := withMetrics(external("queue", "1", ""))
	// The second of two pods started 30 seconds ago, and has not been ready since 5 seconds ago.
	starting := aPod("p1", readySince(corev1.ConditionFalse, 30*time.Second, 5*time.Second))
	for name, tc := range map[string]struct {
		config config
		edits  []edit
		load   string
		wrote  []int32 // from 2 replicas, of which the second counts as unready or not
	}{
		"HPA-6: within the window":                 {stabilization(21 * time.Second), []edit{queue}, "1", nil},
		"HPA-6: after the window":                  {stabilization(19 * time.Second), []edit{queue}, "1", []int32{1}},
		"HPA-6: within the window, with behavior":  {stabilization(21 * time.Second), []edit{queue, behavior}, "1", nil},
		"HPA-6: after the window, with behavior":   {stabilization(19 * time.Second), []edit{queue, behavior}, "1", []int32{1}},
		"HPA-7: tolerated above":                   {tolerance, []edit{queue}, "3", nil},
		"HPA-7: too much":                          {tolerance, []edit{queue}, "3100m", []int32{4}},
		"HPA-7: tolerated below":                   {tolerance, []edit{queue}, "1", nil},
		"HPA-7: too little":                        {tolerance, []edit{queue}, "900m", []int32{1}},
		"HPA-8: during initialization":             {startup(31*time.Second, 0), nil, "0", nil},
		"HPA-8: after initialization":              {startup(30*time.Second, 0), nil, "0", []int32{4}},
		"HPA-9: readiness changed within delay":    {startup(0, 26*time.Second), nil, "0", nil},
		"HPA-9: readiness changed after the delay": {startup(0, 25*time.Second), nil, "0", []int32{4}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, tc.config, newHPA(tc.edits...), aPod("p0"), starting)
			h.scale.Spec.Replicas, h.scale.Status.Replicas = 2, 2
			h.usage = map[string]string{"p0": "1", "p1": "1"}
			h.series(tc.load)
			past := h.c.histories.of(webKey, "u1")
			past.recommendations = []recommendation{{2, epoch.Add(-20 * time.Second)}}
			if tc.config == tolerance {
				past.recommendations[0].at = epoch.Add(-time.Hour)
			}
			if _, err := h.evaluate(t); err != nil || !slices.Equal(h.written, tc.wrote) {
				t.Errorf("%v, wrote %v, want %v", err, h.written, tc.wrote)
			}
		})
	}
}

// Pins HPA-4.
func TestConcurrentSyncs(t *testing.T) {
	many := testConfig
	many.concurrentSyncs = 3
	h := newHarness(t, many)
	if loops := h.Loops(); len(loops) != 1 || loops[0].Workers != 3 {
		t.Errorf("loops are %+v", loops)
	}
}

// counting counts how often the versions of custom metrics were to be looked up again.
type counting struct {
	neverChanging
	invalidated *atomic.Int64
}

func (c counting) Invalidate() { c.invalidated.Add(1) }

// Pins HPA-5.
func TestVersionsAreLookedUpEverySyncPeriod(t *testing.T) {
	quick := testConfig
	quick.syncPeriod = time.Millisecond
	h := newHarness(t, quick)
	var invalidated atomic.Int64
	h.c.apiVersions = counting{invalidated: &invalidated}
	h.Run(t, h.c)
	controllertest.Eventually(t, "they are looked up again", func() bool { return invalidated.Load() > 10 })
}

// waiting are the keys that are delayed, and until when.
func (h *harness) waiting() map[string]time.Time {
	keys := map[string]time.Time{}
	for _, key := range h.c.loop.Keys(func(string) bool { return true }) {
		keys[key.Key] = key.Until
	}
	return keys
}

// Pins HPA-5, HPA-11 and HPA-12.
func TestNotifications(t *testing.T) {
	h := newHarness(t, testConfig)
	autoscalers := h.Informers.Autoscaling().V2().HorizontalPodAutoscalers().Informer()
	informer := &controllertest.Captured{SharedIndexInformer: autoscalers}
	h.c.watch(informer)
	if informer.Resync != testConfig.syncPeriod {
		t.Errorf("resynced every %v", informer.Resync)
	}
	counted := func(want float64) {
		t.Helper()
		if got := h.metric(t, "num_horizontal_pod_autoscalers", map[string]string{}); got != want {
			t.Errorf("%v autoscalers are counted, want %v", got, want)
		}
	}
	selecting := func() int { return len(h.c.selectors.selecting("ns", []*corev1.Pod{aPod("p")})) }

	informer.Handler.OnAdd(newHPA(), false)
	due := epoch.Add(testConfig.syncPeriod)
	if keys := h.waiting(); len(keys) != 1 || !keys["ns/web"].Equal(due) {
		t.Errorf("added: waiting are %v", keys)
	}
	counted(1)
	if !h.c.selectors.isKnown(webKey, "u1") || selecting() != 0 {
		t.Error("an autoscaler that is new is not known, or selects pods")
	}

	h.registered(t, "web", "app=web")
	h.Clock.Step(time.Second)
	informer.Handler.OnUpdate(newHPA(), newHPA())
	if keys := h.waiting(); len(keys) != 1 || !keys["ns/web"].Equal(due) {
		t.Errorf("resynced: waiting are %v", keys)
	}
	counted(1)
	if selecting() != 1 {
		t.Error("the selector is forgotten")
	}
	unseen := newHPA(func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Name = "unseen" })
	informer.Handler.OnUpdate(unseen, unseen)
	if keys := h.waiting(); !keys["ns/unseen"].Equal(h.Clock.Now().Add(testConfig.syncPeriod)) {
		t.Errorf("updated: waiting are %v", keys)
	}
	counted(2)
	informer.Handler.OnDelete(unseen)
	counted(1)
}

// Pods are only looked up. Pins HPA-11.
func TestPodsCauseNoEvaluation(t *testing.T) {
	h := newHarness(t, testConfig)
	h.Store(t, aPod("p0"))
	controllertest.Eventually(t, "the cache shows the pod", func() bool {
		pods, err := h.c.pods.By("ns", map[string]string{"app": "web"})
		return err == nil && len(pods) == 1
	})
	await.Stays(t, "nothing waits", 50*time.Millisecond, func(context.Context) error {
		if keys := h.waiting(); len(keys) != 0 {
			return fmt.Errorf("waiting are %v", keys)
		}
		return nil
	})
}
