package podgc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins PODGC-13.
func TestFailedStatus(t *testing.T) {
	earlier := metav1.NewTime(start.Add(-time.Hour))
	target := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC",
		Message: "PodGC: node no longer exists", ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(start),
	}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	for name, tc := range map[string]struct {
		has    []corev1.PodCondition
		reason string
		want   []corev1.PodCondition
	}{
		"orphaned":     {[]corev1.PodCondition{ready}, reasonOrphaned, []corev1.PodCondition{ready, target}},
		"other reason": {[]corev1.PodCondition{ready}, reasonUnscheduled, []corev1.PodCondition{ready}},
		"was a target already": {
			[]corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: earlier}, ready}, reasonOrphaned,
			[]corev1.PodCondition{func() corev1.PodCondition { c := target; c.LastTransitionTime = earlier; return c }(), ready},
		},
		"was no target": {
			[]corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, LastTransitionTime: earlier}}, reasonOrphaned,
			[]corev1.PodCondition{target},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("p", func(p *corev1.Pod) { p.Status.Conditions = tc.has })
			got := failedStatus(p, tc.reason, start)
			if got.Phase != corev1.PodFailed || got.ObservedGeneration != 3 || !slices.Equal(got.Conditions, tc.want) {
				t.Errorf("got %+v", got)
			}
			if p.Status.Phase != corev1.PodRunning || p.Status.ObservedGeneration != 0 {
				t.Error("the cached pod was changed")
			}
		})
	}
}

// Pins PODGC-13.
func TestStatusPatchNamesThePodAndChangesItsStatusOnly(t *testing.T) {
	p := pod("p")
	patch, err := pods.StatusPatch(p, failedStatus(p, reasonUnscheduled, start), metav1.ObjectMeta{UID: p.UID})
	if want := `{"metadata":{"uid":"uid-of-pod"},"status":{"observedGeneration":3,"phase":"Failed"}}`; err != nil || string(patch) != want {
		t.Errorf("got %s, %v", patch, err)
	}
}

// Both requests name the UID, which saves a later pod of the name; the deletion has no propagation policy. Pins PODGC-4,
// PODGC-14, PODGC-17 and PODGC-32.
func TestRequestsOfADeletion(t *testing.T) {
	env, gc := fixture(t, 0, node("node", corev1.ConditionTrue), pod("never", on(""), deleting))
	gc.pass(env.Context(), env.Context())
	var patch clienttesting.PatchActionImpl
	var deletion clienttesting.DeleteActionImpl
	for _, action := range env.Fake.Actions() {
		switch a := action.(type) {
		case clienttesting.PatchActionImpl:
			if deletion.Name != "" {
				t.Error("the pod is deleted before its phase is set")
			}
			patch = a
		case clienttesting.DeleteActionImpl:
			deletion = a
		}
	}
	if patch.PatchType != types.StrategicMergePatchType || patch.Subresource != "status" || !strings.Contains(string(patch.Patch), `"phase":"Failed"`) ||
		!strings.Contains(string(patch.Patch), `"uid":"uid-of-pod"`) {
		t.Errorf("the patch is %s of %q: %s", patch.PatchType, patch.Subresource, patch.Patch)
	}
	o := deletion.DeleteOptions
	if o.Preconditions == nil || *o.Preconditions.UID != "uid-of-pod" || o.Preconditions.ResourceVersion != nil {
		t.Errorf("the preconditions of the deletion are %v", o.Preconditions)
	}
	if o.PropagationPolicy != nil || *o.GracePeriodSeconds != 0 {
		t.Errorf("the options of the deletion are %+v", o)
	}
	env.WantEvents(t)
}

// Pins PODGC-13 and PODGC-15.
func TestAPodThatCannotBeFailedIsNotDeleted(t *testing.T) {
	env, gc := fixture(t, 0, pod("never", on(""), deleting))
	env.Fake.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("boom") })
	if got := pass(env, gc); !slices.Equal(got, []string{"patch status of never"}) {
		t.Errorf("got %q", got)
	}
	want := `
# HELP pod_gc_collector_force_delete_pod_errors_total [ALPHA] Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.
# TYPE pod_gc_collector_force_delete_pod_errors_total counter
pod_gc_collector_force_delete_pod_errors_total{namespace="ns",reason="unscheduled"} 1
# HELP pod_gc_collector_force_delete_pods_total [ALPHA] Number of pods that are being forcefully deleted since the Pod GC Controller started.
# TYPE pod_gc_collector_force_delete_pods_total counter
pod_gc_collector_force_delete_pods_total{namespace="ns",reason="unscheduled"} 1
`
	if err := testutil.GatherAndCompare(env.Metrics, strings.NewReader(want), "pod_gc_collector_force_delete_pod_errors_total", "pod_gc_collector_force_delete_pods_total"); err != nil {
		t.Error(err)
	}
}

// The cache may still show a pod whose name belongs to another one, such as that of a StatefulSet. Pins PODGC-32.
func TestAPodThatTookTheNameIsKept(t *testing.T) {
	env := controllertest.New(t, pod("web-0", uid("b")))
	gc := must.Get(newController(env.Env, config{threshold: 1}))(t)
	env.Cache(t, node("node", corev1.ConditionTrue), pod("young", phase(corev1.PodSucceeded)), pod("web-0", uid("a"), phase(corev1.PodFailed), age(time.Hour)))
	env.Intercept("delete pods web-0", func(action clienttesting.Action) error {
		p := action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
		if p == nil || *p.UID == "b" {
			return nil
		}
		return apierrors.NewConflict(corev1.Resource("pods"), "web-0", errors.New("the UID in the precondition is another"))
	})
	if got, want := pass(env, gc), []string{"delete web-0 with grace 0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, ok := controllertest.Stored[*corev1.Pod](t, env, "ns", "web-0"); !ok {
		t.Error("another pod was deleted")
	}
	for _, metric := range []string{"pod_gc_collector_force_delete_pods_total", "pod_gc_collector_force_delete_pod_errors_total"} {
		if got, want := env.Series(t, metric), []string{"namespace=ns reason=terminated 1"}; !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", metric, got, want)
		}
	}
}

func TestPodsInAPausedNamespaceAreKept(t *testing.T) {
	env, gc := fixture(t, 1, node("node", corev1.ConditionTrue), pod("a", phase(corev1.PodSucceeded)), pod("b", phase(corev1.PodSucceeded)))
	env.Pauses.Set([]string{"ns"})
	if got := pass(env, gc); len(got) != 0 {
		t.Errorf("sent %q while paused", got)
	}
	env.Pauses.Set(nil)
	if got := pass(env, gc); !slices.Equal(got, []string{"delete a with grace 0"}) {
		t.Errorf("sent %q when resumed", got)
	}
}

// A pod whose phase is set to Failed is replaced, so nothing is written before its deletion is
// allowed.
func TestPodsWhoseDeletionIsStoppedAreNotTouched(t *testing.T) {
	env, gc := fixture(t, 1, node("node", corev1.ConditionTrue), pod("a", phase(corev1.PodSucceeded)), pod("b", phase(corev1.PodSucceeded)))
	breaker := &controllertest.Breaker{}
	gc.Deletions = controller.DeletionsBy("podgc", breaker)
	breaker.Stop(corev1.Resource("pods"))
	if got := pass(env, gc); len(got) != 0 || breaker.Counted() != 0 {
		t.Errorf("sent %q while stopped, counted %d", got, breaker.Counted())
	}
	breaker.Resume()
	if got := pass(env, gc); !slices.Equal(got, []string{"delete a with grace 0"}) {
		t.Errorf("sent %q when resumed", got)
	}
}

// holding is a client that calls held before each deletion of a pod.
type holding struct {
	kubernetes.Interface
	held func()
}

func (h holding) CoreV1() typedcorev1.CoreV1Interface {
	return holdingCore{h.Interface.CoreV1(), h.held}
}

type holdingCore struct {
	typedcorev1.CoreV1Interface
	held func()
}

func (h holdingCore) Pods(namespace string) typedcorev1.PodInterface {
	return holdingPods{h.CoreV1Interface.Pods(namespace), h.held}
}

type holdingPods struct {
	typedcorev1.PodInterface
	held func()
}

func (h holdingPods) Delete(context.Context, string, metav1.DeleteOptions) error {
	h.held()
	return nil
}

// Pins PODGC-29.
func TestPodsAreDeletedAFewAtATime(t *testing.T) {
	const all = 45
	objects := []runtime.Object{node("node", corev1.ConditionTrue)}
	for n := range all {
		objects = append(objects, pod(fmt.Sprint("never-", n), on(""), deleting, phase(corev1.PodFailed)))
	}
	env, gc := fixture(t, 0, objects...)
	var working, most atomic.Int32
	release := make(chan struct{})
	gc.Client = holding{gc.Client, func() {
		n := working.Add(1)
		defer working.Add(-1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		<-release
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		gc.pass(env.Context(), env.Context())
	}()
	controllertest.Eventually(t, "some are being deleted", func() bool { return working.Load() == 20 })
	close(release)
	<-done
	if most.Load() != 20 {
		t.Errorf("%d were deleted at once", most.Load())
	}
}

// Pins PODGC-31.
func TestAStopLetsTheDeletionsEndThatRun(t *testing.T) {
	objects := []runtime.Object{node("node", corev1.ConditionTrue)}
	for n := range 2 * maxConcurrent {
		objects = append(objects, pod(fmt.Sprint("never-", n), on(""), deleting, phase(corev1.PodFailed)))
	}
	env, gc := fixture(t, 0, objects...)
	var begun, ended atomic.Int32
	release := make(chan struct{})
	gc.Client = holding{gc.Client, func() {
		begun.Add(1)
		<-release
		ended.Add(1)
	}}
	stopped, stop := context.WithCancel(env.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		gc.pass(stopped, env.Context())
	}()
	controllertest.Eventually(t, "some are being deleted", func() bool { return begun.Load() == maxConcurrent })
	stop()
	close(release)
	<-done
	if begun.Load() != maxConcurrent || ended.Load() != maxConcurrent {
		t.Errorf("%d deletions were begun, %d ended", begun.Load(), ended.Load())
	}
}

// A panic while pods are deleted is one of Run, which the supervisor isolates.
func TestAPanicOfADeletionIsRaisedByThePass(t *testing.T) {
	env, gc := fixture(t, 1, pod("a", evicted), pod("b", evicted), pod("c", evicted))
	env.Fake.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { panic("boom") })
	defer func() {
		if raised, ok := recover().(error); !ok || !strings.Contains(raised.Error(), "boom") {
			t.Errorf("raised %v", raised)
		}
	}()
	pass(env, gc)
	t.Error("the panic was swallowed")
}
