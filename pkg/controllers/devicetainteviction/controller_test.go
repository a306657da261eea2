package devicetainteviction

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins DTE-48 and DTE-52.
func TestASuccessorContinuesAppointmentsAndCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		slice  *resourcev1.ResourceSlice
		want   int
		events []string
	}{
		"DTE-52: the same":          {slice("p", 1, device("d", taint("a", 5))), 65, nil},
		"DTE-52: the taint is gone": {slice("p", 1, device("d")), -1, []string{cancelling}},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule("r", "//e", noExecute)
			objects := append(others("a", "evicted", "q", "d"), r, slice("p", 1, device("d", taint("a", 5))), claim("d", "p", "d", tolerates("a", 60)), pod("d"))
			env, c := fixture(t, objects...)
			wantPending(t, c, 65)
			c.counts["uid-of-r"], c.counts["gone"] = 7, 8
			evicted, gone := types.NamespacedName{Namespace: "a", Name: "evicted"}, types.NamespacedName{Namespace: "a", Name: "gone"}
			c.evicted[evicted], c.evicted[gone] = "pod-evicted", "pod-gone"
			env.Clock.Step(20 * time.Second)
			env.Succeed(c.HandOver())
			env.Cache(t, tc.slice)
			successor := begun(t, env, tc.slice)
			wantPending(t, successor, tc.want)
			env.WantEvents(t, tc.events...)
			if len(successor.counts) != 1 || successor.counts["uid-of-r"] != 7 {
				t.Errorf("counts are %v", successor.counts)
			}
			if !successor.isEvicted(evicted, "pod-evicted") || len(successor.evicted) != 1 {
				t.Errorf("pods that were evicted: %v", successor.evicted)
			}
		})
	}
}

// A process that takes over knows nothing but what the API server stores. What is due by then is evicted
// at once, what is not is evicted in time. Pins DTE-48.
func TestCountdownsSurviveACrash(t *testing.T) {
	objects := slices.Concat(
		[]runtime.Object{slice("p", 1, device("d", taint("a", 0)))},
		[]runtime.Object{pod("d"), claim("d", "p", "d", tolerates("a", 60))},
		others("a", "late", "p", "d"), others("a", "other", "p", "e"))
	env := controllertest.New(t, objects...)
	env.Clock.Step(30 * time.Second)
	c := must.Get(newController(env.Env, usual))(t)
	env.Start(t)
	env.Run(t, c)
	gone := func(namespace, name string) bool {
		_, ok := controllertest.Stored[*corev1.Pod](t, env, namespace, name)
		return !ok
	}
	controllertest.Eventually(t, "what is overdue is evicted", func() bool { return gone("a", "late") })
	env.AwaitIdle(t)
	env.Clock.Step(29 * time.Second)
	env.AwaitIdle(t)
	if gone("ns", "pod") {
		t.Fatal("a pod was evicted early")
	}
	env.EventuallyAsTimePasses(t, "the other is evicted in time", 500*time.Millisecond, func() bool { return gone("ns", "pod") })
	if now := env.Clock.Now(); now.Before(seconds(60)) {
		t.Errorf("evicted at %v", now)
	}
	if gone("a", "other") {
		t.Error("a pod was evicted whose device is not tainted")
	}
}

// A rule without an effect is told once what it would do, whoever runs. Pins DTE-53.
func TestARestartUpdatesOnlyWhatItMay(t *testing.T) {
	shown := func(r *resourcev1beta2.DeviceTaintRule) {
		r.Status.Conditions = []metav1.Condition{{Type: "EvictionInProgress", ObservedGeneration: r.Generation}}
	}
	for name, tc := range map[string]struct {
		rule *resourcev1beta2.DeviceTaintRule
		want int
	}{
		"DTE-16: not told yet":           {rule("r", everything, noEffect), 1},
		"DTE-53: told":                   {rule("r", everything, noEffect, shown), 0},
		"DTE-53: told of an older state": {rule("r", everything, noEffect, shown, func(r *resourcev1beta2.DeviceTaintRule) { r.Generation++ }), 1},
		"DTE-53: it evicts":              {rule("r", everything, noExecute, shown), 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := fixture(t, tc.rule)
			if depth := c.loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued, want %d", depth, tc.want)
			}
		})
	}
}

// A rule with a toleration of 30 seconds from its creation to its end: pending at once, deleted in time,
// done ten seconds later. Pins DTE-8, DTE-16, DTE-18, DTE-22, DTE-34 and DTE-49.
func TestARuleFromBeginningToEnd(t *testing.T) {
	env := controllertest.New(t, pod("d"), claim("d", "p", "d", tolerates("r", 30)))
	running(t, env)
	if _, err := env.Fake.ResourceV1beta2().DeviceTaintRules().Create(env.Context(), rule("r", everything, noExecute), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the status says that a pod is pending", func() bool {
		return slices.Equal(statuses(t, env), []string{"PodsPendingEviction 1 pod needs to be evicted in 1 namespace."})
	})
	env.EventuallyAsTimePasses(t, "the pod is deleted", time.Second, func() bool {
		_, ok := controllertest.Stored[*corev1.Pod](t, env, "ns", "pod")
		return !ok
	})
	if took := env.Clock.Since(epoch); took < 30*time.Second {
		t.Errorf("it took %v", took)
	}
	deleted := env.Clock.Now()
	env.EventuallyAsTimePasses(t, "the status says that it is done", time.Second, func() bool { return len(statuses(t, env)) == 2 })
	if got := statuses(t, env)[1]; got != "Completed 1 pod evicted since starting the controller." {
		t.Errorf("the status is %s", got)
	}
	if took := env.Clock.Since(deleted); took < 9*time.Second {
		t.Errorf("it was written after %v", took)
	}
}

// Pins DTE-1, DTE-2, DTE-4, DTE-46 and DTE-57.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "device-taint-eviction-controller" || len(d.Aliases) != 0 || d.ServiceAccount != d.Name || d.EventSource != d.Name {
		t.Errorf("described as %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if on, why := d.Enabled(cfg); !on {
		t.Errorf("not enabled: %s", why)
	}
	if d.Value(cfg) != (config{workers: 8}) {
		t.Errorf("reads %+v", d.Value(cfg))
	}
	if resources := d.Resources(d.Value(cfg)); len(resources) != 3 {
		t.Errorf("needs %v", resources)
	}
	cfg.FeatureGates = map[string]bool{"DRADeviceTaintRules": true, "GenericWorkload": true, "DRAWorkloadResourceClaims": true}
	if d.Value(cfg) != (config{workers: 8, rules: true, podGroups: true}) {
		t.Errorf("reads %+v", d.Value(cfg))
	}
	if resources := d.Resources(d.Value(cfg)); len(resources) != 4 || resources[3] != ruleResource {
		t.Errorf("needs %v", resources)
	}
	env := controllertest.New(t)
	built := must.Get(d.New(env.Env, d.Value(cfg)))(t)
	if s := built.(*evictionController).loop.Inspect(); s.Workers != 8 || s.Queue != d.Name {
		t.Errorf("loop: %+v", s)
	}
	if _, ok := env.Informers.Core().V1().Pods().Informer().GetIndexer().GetIndexers()[index.PodsByGroup]; !ok {
		t.Error("pods are not indexed by group")
	}
	cfg.FeatureGates = map[string]bool{"DRADeviceTaints": false}
	if on, why := d.Enabled(cfg); on || why != "needs the feature gate DRADeviceTaints" {
		t.Errorf("enabled is %v: %s", on, why)
	}
}

// Without rules and groups. Pins DTE-1 and DTE-5.
func TestWithoutRules(t *testing.T) {
	env := controllertest.New(t, slice("p", 1, device("d", taint("a", 0))), claim("d", "p", "d"), pod("d"))
	left := handover{appointments: map[types.NamespacedName]appointment{
		podKey: {"pod", verdict{due: epoch, reasons: []reason{{rule: "r", uid: "uid-of-r"}}}}, // of an instance with rules
	}}
	env.Succeed(left)
	c := must.Get(newController(env.Env, config{workers: 1}))(t)
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "the pod is evicted", func() bool {
		_, ok := controllertest.Stored[*corev1.Pod](t, env, "ns", "pod")
		return !ok
	})
	env.AwaitIdle(t)
	for _, request := range env.Requests() {
		if request == "list devicetaintrules" {
			t.Error("rules are listed")
		}
	}
	if _, ok := env.Informers.Core().V1().Pods().Informer().GetIndexer().GetIndexers()[index.PodsByGroup]; ok {
		t.Error("pods are indexed by group")
	}
}
