package replicaset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins RS-3 and RS-4.
func TestValue(t *testing.T) {
	d := Descriptor()
	for _, test := range []struct {
		name   string
		change func(*controller.Config)
		want   config
	}{
		{"defaults", func(*controller.Config) {}, config{5, true, true, true}},
		{"workers", func(c *controller.Config) { *c.Controllers.ReplicaSet.ConcurrentSyncs = 7 }, config{7, true, true, true}},
		{"consistency", func(c *controller.Config) {
			c.FeatureGates = map[string]bool{"StaleControllerConsistencyReplicaSet": false}
		}, config{5, false, true, true}},
		{"terminating", func(c *controller.Config) {
			c.FeatureGates = map[string]bool{"DeploymentReplicaSetTerminatingReplicas": false}
		}, config{5, true, false, true}},
		{"cost", func(c *controller.Config) { c.FeatureGates = map[string]bool{"PodDeletionCost": false} }, config{5, true, true, false}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := v1beta1.NewDefault()
			test.change(c)
			if got := d.Value(c); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// Pins RS-32.
func TestMetricNames(t *testing.T) {
	env := controllertest.New(t)
	m := newMetrics(env.Metrics)
	m.staleSyncs.Skipped(schema.GroupResource{Group: "apps", Resource: "replicasets"})
	m.sortingDeletionAgeRatio.Observe(3)
	families, err := env.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, family := range families {
		var text strings.Builder
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				fmt.Fprintf(&text, "%s=%s ", label.GetName(), label.GetValue())
			}
			for _, bucket := range metric.GetHistogram().GetBucket() {
				fmt.Fprintf(&text, "%v:%d ", bucket.GetUpperBound(), bucket.GetCumulativeCount())
			}
		}
		got[family.GetName()] = strings.TrimSpace(text.String())
	}
	for name, want := range map[string]string{
		"replicaset_controller_stale_sync_skips_total":     "group=apps resource=replicasets",
		"replicaset_controller_sorting_deletion_age_ratio": "0.25:0 0.5:0 1:0 2:0 4:1 8:1",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

// They are registered when an instance is built, not once for each process.
func TestEachInstanceHasMetricsOfItsOwn(t *testing.T) {
	env := controllertest.New(t)
	d := Descriptor()
	for range 2 {
		must.Get(d.New(env.Env, d.Value(v1beta1.NewDefault())))(t)
		if got := env.Series(t, "replicaset_controller_sorting_deletion_age_ratio"); !slices.Equal(got, []string{"0"}) {
			t.Errorf("series are %q", got)
		}
		env.Succeed(nil)
	}
}

// TestRun watches the controller at work from a new ReplicaSet to a status that counts
// its pods, and through a scale-down.
func TestRun(t *testing.T) {
	labels := map[string]string{"app": "a"}
	env := controllertest.New(t, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "rs", UID: "o", Generation: 1},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	})
	env.StampWrites("pods")
	d := Descriptor()
	instance := must.Get(d.New(env.Env, d.Value(v1beta1.NewDefault())))(t)
	env.Start(t)
	env.Run(t, instance)
	scale(t, env, 3)
	scale(t, env, 1)
}

// scale asks for n replicas and waits until there are n pods and the status says so. It
// asks again if need be: the fake API server lets a status write undo a change of the
// spec. The clock of the controller moves on, so that status writes that were put off are
// made.
func scale(t *testing.T, env *controllertest.Env, n int32) {
	t.Helper()
	sets := env.Fake.AppsV1().ReplicaSets("ns")
	var last string
	defer func() {
		if t.Failed() {
			t.Logf("there are %s", last)
		}
	}()
	env.EventuallyAsTimePasses(t, fmt.Sprintf("there are %d replicas", n), 10*time.Millisecond, func() bool {
		rs, err := sets.Get(t.Context(), "rs", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if *rs.Spec.Replicas != n {
			rs.Spec.Replicas, rs.Generation = &n, rs.Generation+1
			if _, err := sets.Update(t.Context(), rs, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			return false
		}
		pods, err := env.Fake.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last = fmt.Sprintf("%d pods, status %+v, generation %d", len(pods.Items), rs.Status, rs.Generation)
		return len(pods.Items) == int(n) && rs.Status.Replicas == n && rs.Status.ObservedGeneration == rs.Generation
	})
}
