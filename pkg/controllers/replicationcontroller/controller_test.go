package replicationcontroller

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins RC-4 and RC-5.
func TestValue(t *testing.T) {
	d := Descriptor()
	for _, test := range []struct {
		name   string
		change func(*controller.Config)
		want   config
	}{
		{"defaults", func(*controller.Config) {}, config{5, true}},
		{"workers", func(c *controller.Config) { *c.Controllers.ReplicationController.ConcurrentSyncs = 7 }, config{7, true}},
		{"cost", func(c *controller.Config) { c.FeatureGates = map[string]bool{"PodDeletionCost": false} }, config{5, false}},
		{"gates of ReplicaSets", func(c *controller.Config) {
			c.FeatureGates = map[string]bool{"StaleControllerConsistencyReplicaSet": false, "DeploymentReplicaSetTerminatingReplicas": false}
		}, config{5, true}},
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

func replicationController(replicas int32, template *corev1.PodTemplateSpec) *corev1.ReplicationController {
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "rc", UID: "o", Generation: 1},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: ptr.To(replicas),
			Selector: map[string]string{"app": "a"},
			Template: template,
		},
	}
}

// start runs the controller over the objects until the test ends.
func start(t *testing.T, objects ...runtime.Object) *controllertest.Env {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.StampWrites("pods") // without versions nobody can tell whether the cache shows a pod
	env.CompleteWrites("replicationcontrollers")
	env.CheckWrites("replicationcontrollers") // or a write of the status would undo what a test changes meanwhile
	d := Descriptor()
	instance := must.Get(d.New(env.Env, d.Value(v1beta1.NewDefault())))(t)
	env.Start(t)
	env.Run(t, instance)
	return env
}

// await waits until the stored ReplicationController is as it should be. The clock of
// the controller moves on meanwhile.
func await(t *testing.T, env *controllertest.Env, what string, is func(*corev1.ReplicationController) bool) {
	t.Helper()
	var last *corev1.ReplicationController
	defer func() {
		if t.Failed() {
			t.Logf("there is %+v", last)
		}
	}()
	env.EventuallyAsTimePasses(t, what, 10*time.Millisecond, func() bool {
		last = controllertest.MustStored[*corev1.ReplicationController](t, env, "ns", "rc")
		return is(last)
	})
}

// Pins RC-12.
func TestRun(t *testing.T) {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{ServiceAccountName: "sa"},
	}
	env := start(t, replicationController(2, template), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "orphan", UID: "p", ResourceVersion: "1", Labels: map[string]string{"app": "a"}},
	})
	await(t, env, "there are two replicas", func(rc *corev1.ReplicationController) bool {
		return rc.Status.Replicas == 2 && rc.Status.FullyLabeledReplicas == 2 && rc.Status.ObservedGeneration == 1
	})
	stored, err := env.Fake.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range stored.Items {
		ref := metav1.GetControllerOf(&pod)
		if ref == nil || ref.APIVersion != "v1" || ref.Kind != "ReplicationController" || ref.UID != "o" {
			t.Errorf("%s is controlled by %v", pod.Name, ref)
		}
		if pod.Name != "orphan" && pod.Spec.DeprecatedServiceAccount != "sa" {
			t.Errorf("%s has service account %q", pod.Name, pod.Spec.DeprecatedServiceAccount)
		}
	}
	if len(stored.Items) != 2 {
		t.Errorf("there are %d pods", len(stored.Items))
	}
}

// Pins RC-13.
func TestWithoutATemplateCreationFails(t *testing.T) {
	env := start(t, replicationController(1, nil))
	await(t, env, "the failure is shown", func(rc *corev1.ReplicationController) bool {
		return slices.ContainsFunc(rc.Status.Conditions, func(c corev1.ReplicationControllerCondition) bool {
			return c.Type == corev1.ReplicationControllerReplicaFailure && c.Status == corev1.ConditionTrue &&
				c.Reason == "FailedCreate" && c.Message == "unable to create pods, no labels"
		})
	})
}
