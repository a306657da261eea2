package podgc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func fixture(t testing.TB, threshold int, objects ...runtime.Object) (*controllertest.Env, *podGC) {
	t.Helper()
	env := controllertest.New(t, objects...)
	gc := must.Get(newController(env.Env, config{threshold: threshold}))(t)
	env.Start(t)
	if err := gc.begin(env.Context()); err != nil {
		t.Fatal(err)
	}
	env.Fake.ClearActions()
	return env, gc
}

func pass(env *controllertest.Env, gc *podGC) []string {
	gc.pass(env.Context(), env.Context())
	var requests []string
	for _, a := range env.Fake.Actions() {
		switch action := a.(type) {
		case clienttesting.PatchActionImpl:
			requests = append(requests, "patch "+action.GetSubresource()+" of "+action.GetName())
		case clienttesting.DeleteActionImpl:
			requests = append(requests, fmt.Sprintf("delete %s with grace %d", action.GetName(), *action.DeleteOptions.GracePeriodSeconds))
		case clienttesting.GetActionImpl:
			requests = append(requests, "get "+action.GetName())
		}
	}
	env.Fake.ClearActions()
	return requests
}

// after starts a successor of a controller, after a time, and returns the requests of its
// first pass.
func after(t *testing.T, env *controllertest.Env, left any, d time.Duration) []string {
	t.Helper()
	env.Clock.Step(d)
	env.Succeed(left)
	successor := must.Get(newController(env.Env, config{}))(t)
	if err := successor.begin(env.Context()); err != nil {
		t.Fatal(err)
	}
	return pass(env, successor)
}

func names(list []*corev1.Pod) string {
	var all []string
	for _, p := range list {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

type podOption func(*corev1.Pod)

func pod(name string, options ...podOption) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-of-pod", Generation: 3, CreationTimestamp: metav1.NewTime(start)},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

func phase(is corev1.PodPhase) podOption { return func(p *corev1.Pod) { p.Status.Phase = is } }
func on(node string) podOption           { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
func uid(is types.UID) podOption         { return func(p *corev1.Pod) { p.UID = is } }

func age(d time.Duration) podOption {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(start.Add(-d)) }
}

func evicted(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }

func deleting(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: start}, ptr.To(int64(30))
	p.Finalizers = []string{"example.com/finalizer"} // the fake API server insists
}

func mirror(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
func held(p *corev1.Pod)   { deleting(p); p.DeletionGracePeriodSeconds = ptr.To(int64(0)) }

func node(name string, ready corev1.ConditionStatus, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: ready}}
	}
	for _, t := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: t, Value: "x", Effect: corev1.TaintEffectNoExecute})
	}
	return n
}
