package statefulset

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ktesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins STS-3 and STS-4.
func TestValue(t *testing.T) {
	d := Descriptor()
	gate := func(name string, on bool) func(*controller.Config) {
		return func(c *controller.Config) { c.FeatureGates = map[string]bool{name: on} }
	}
	for _, test := range []struct {
		name   string
		change func(*controller.Config)
		want   config
	}{
		{"defaults", func(*controller.Config) {}, config{5, true, true, false}},
		{"workers", func(c *controller.Config) { *c.Controllers.StatefulSet.ConcurrentSyncs = 7 }, config{7, true, true, false}},
		{"consistency", gate("StaleControllerConsistencyStatefulSet", false), config{5, false, true, false}},
		{"comparison", gate("StatefulSetSemanticRevisionComparison", false), config{5, true, false, false}},
		{"max unavailable", gate("MaxUnavailableStatefulSet", true), config{5, true, true, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := v1beta1.NewDefault()
			test.change(c)
			got := d.Value(c)
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if loop := newFixtureWith(t, got.(config)).Loops()[0]; loop.Workers != test.want.concurrentSyncs {
				t.Errorf("there are %d workers", loop.Workers)
			}
		})
	}
}

// Pins STS-46 and STS-67.
func TestMetricNames(t *testing.T) {
	env := controllertest.New(t)
	m := newMetrics(env.Metrics)
	m.staleSyncs.Skipped(setResource)
	m.rolling(newSet(1, parallel), 2, 1)
	const labels = "pod_management_policy=Parallel statefulset_name=web statefulset_namespace=ns "
	for name, want := range map[string]string{
		"statefulset_controller_stale_sync_skips_total":           "group=apps resource=statefulsets 1",
		"statefulset_controller_statefulset_max_unavailable":      labels + "2",
		"statefulset_controller_statefulset_unavailable_replicas": labels + "1",
	} {
		if got := env.Series(t, name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// However often a set fails, it is tried again. Pins STS-10.
func TestASetThatFailsIsTriedForEver(t *testing.T) {
	f := newFixture(t, newSet(1))
	var attempts atomic.Int32
	f.RefuseIf("create pods", errTest, func(int) bool { return attempts.Add(1) > 0 })
	f.c.owners.Queue = f.c.owners.Loop
	f.Start(t)
	f.Run(t, f.c)
	longest := time.Duration(0)
	f.EventuallyAsTimePasses(t, "it is tried 25 times", 1000*time.Second, func() bool {
		f.RecordedEvents() // makes room for more
		for _, key := range f.c.owners.Loop.Keys(func(key string) bool { return key == "ns/web" }) {
			longest = max(longest, key.Until.Sub(f.Clock.Now()))
		}
		return attempts.Load() >= 25
	})
	if longest <= 15*time.Minute || longest > 1000*time.Second {
		t.Errorf("the longest delay is %v", longest)
	}
}

// TestRun watches the controller at work from a new set to a status that counts its pods.
func TestRun(t *testing.T) {
	for name, set := range map[string]*appsv1.StatefulSet{
		"ordered": newSet(3, claims("data")),
		"STS-72: more pods than one reconcile creates": newSet(1200, parallel),
	} {
		t.Run(name, func(t *testing.T) { runUntilAvailable(t, set) })
	}
}

func runUntilAvailable(t *testing.T, set *appsv1.StatefulSet) {
	env := controllertest.New(t, set)
	storePods(env, phase(corev1.PodRunning), readySince(start.Add(-time.Hour)))
	created, cached := 0, env.CacheOf(t, &corev1.Pod{})
	env.Intercept("create pods", func(ktesting.Action) error {
		before := created
		created++
		if before%50 > 0 { // a fake watch has room for 100 events
			return nil
		}
		return await.Nil(t.Context(), time.Minute, func(context.Context) error {
			if shown := len(cached.ListKeys()); shown < before {
				return fmt.Errorf("the cache shows %d of %d pods", shown, before)
			}
			return nil
		})
	})
	d := Descriptor()
	instance := must.Get(d.New(env.Env, d.Value(v1beta1.NewDefault())))(t)
	env.Start(t)
	env.Run(t, instance)
	// Status writes are put off for a while.
	env.EventuallyAsTimePasses(t, "the pods are counted", time.Second, func() bool {
		env.RecordedEvents() // makes room for more
		stored, err := env.Fake.AppsV1().StatefulSets("ns").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && stored.Status.AvailableReplicas == *set.Spec.Replicas
	})
}
