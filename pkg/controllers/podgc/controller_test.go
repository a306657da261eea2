package podgc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

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

func fixture(t testing.TB, threshold int, objects ...runtime.Object) (*controllertest.Env, *podGC) {
	t.Helper()
	env := controllertest.New(t, objects...)
	gc, err := newController(env.Env, config{threshold: threshold})
	if err != nil {
		t.Fatal(err)
	}
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

func names(list []*corev1.Pod) string {
	var all []string
	for _, p := range list {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

// Pins PODGC-8 and PODGC-27.
func TestExcess(t *testing.T) {
	ended := func() []*corev1.Pod {
		return []*corev1.Pod{
			pod("young", phase(corev1.PodSucceeded), age(time.Minute)),
			pod("b", phase(corev1.PodSucceeded), age(time.Hour)),
			pod("a", phase(corev1.PodFailed), age(time.Hour)),
			pod("evicted", evicted),
			pod("held", held, phase(corev1.PodFailed), age(2*time.Hour)),
			pod("going", deleting, phase(corev1.PodFailed), age(3*time.Hour)),
			pod("reason-only", phase(corev1.PodSucceeded), age(time.Second), func(p *corev1.Pod) { p.Status.Reason = "Evicted" }),
		}
	}
	for threshold, want := range map[int]string{
		7: "", 8: "", 6: "evicted", 5: "evicted going",
		4: "evicted going", // held counts and is left out
		3: "evicted going a", 1: "evicted going a b young",
	} {
		if got := names(excess(ended(), threshold)); got != want {
			t.Errorf("threshold %d: %q, want %q", threshold, got, want)
		}
	}
}

// Pins PODGC-9.
func TestOutOfService(t *testing.T) {
	for name, tc := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"tainted and not ready":       {node("n", corev1.ConditionFalse, "other", corev1.TaintNodeOutOfService), true},
		"tainted and unknown":         {node("n", corev1.ConditionUnknown, corev1.TaintNodeOutOfService), true},
		"tainted without a condition": {node("n", "", corev1.TaintNodeOutOfService), true},
		"tainted but ready":           {node("n", corev1.ConditionTrue, corev1.TaintNodeOutOfService), false},
		"not ready":                   {node("n", corev1.ConditionFalse), false},
	} {
		if got := isOutOfService(tc.node); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Pins PODGC-30.
func TestQuarantine(t *testing.T) {
	q := newQuarantine()
	q.update([]string{"a", "there-again"}, start)
	q.update([]string{"a", "b"}, start.Add(10*time.Second)) // the earlier time stays
	if due := q.due(start.Add(39 * time.Second)); len(due) != 0 {
		t.Errorf("due early: %v", due)
	}
	left := q.state(start.Add(39 * time.Second))
	successor := newQuarantine()
	successor.takeOver(left, start.Add(45*time.Second))
	late := newQuarantine()
	late.takeOver(left, start.Add(39*time.Second+passPeriod+1))
	if len(late.ends) != 0 {
		t.Errorf("adopted after nobody had looked for longer than between two passes: %v", late.ends)
	}
	for range 2 { // they stay due
		if due := successor.due(start.Add(50 * time.Second)); !slices.Equal(due, []string{"a", "b"}) {
			t.Errorf("due: %v", due)
		}
	}
	successor.renew([]string{"b"}, start.Add(50*time.Second))
	if due := successor.due(start.Add(89 * time.Second)); !slices.Equal(due, []string{"a"}) {
		t.Errorf("due in the new period of b: %v", due)
	}
}

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
	patch, err := statusPatch(p, failedStatus(p, reasonUnscheduled, start))
	if want := `{"metadata":{"uid":"uid-of-pod"},"status":{"observedGeneration":3,"phase":"Failed"}}`; err != nil || string(patch) != want {
		t.Errorf("got %s, %v", patch, err)
	}
}

func TestPass(t *testing.T) {
	ready := node("node", corev1.ConditionTrue)
	gone := node("out", corev1.ConditionFalse, corev1.TaintNodeOutOfService)
	for name, tc := range map[string]struct {
		threshold int
		objects   []runtime.Object
		want      []string
	}{
		"nothing to do": {1, []runtime.Object{ready, pod("runs"), pod("done", phase(corev1.PodSucceeded)), pod("leaves", deleting)}, nil},
		"PODGC-8: excess": {1, []runtime.Object{ready, pod("new", phase(corev1.PodSucceeded)), pod("old", phase(corev1.PodFailed), age(time.Hour))},
			[]string{"delete old with grace 0"}},
		"PODGC-8, PODGC-13: an ended pod without a phase is failed first": {1, []runtime.Object{ready, pod("new", phase(corev1.PodSucceeded)), pod("odd", phase(""), age(time.Hour))},
			[]string{"patch status of odd", "delete odd with grace 0"}},
		"PODGC-2: no threshold": {0, []runtime.Object{ready, pod("done", phase(corev1.PodSucceeded)), pod("done2", phase(corev1.PodSucceeded))}, nil},
		"PODGC-23: a mirror pod is like any other": {1, []runtime.Object{ready, pod("new", phase(corev1.PodSucceeded)), pod("mirror", phase(corev1.PodFailed), age(time.Hour), mirror)},
			[]string{"delete mirror with grace 0"}},
		"PODGC-21: an unscheduled one is on no node": {0, []runtime.Object{node("", corev1.ConditionFalse, corev1.TaintNodeOutOfService), pod("never", on(""), deleting)},
			[]string{"patch status of never", "delete never with grace 0"}},
		"PODGC-7, PODGC-12: a pod in two parts, in their order": {1, []runtime.Object{gone, pod("new", phase(corev1.PodSucceeded), on("")), pod("stuck", on("out"), deleting, phase(corev1.PodFailed), age(time.Hour)), pod("never", on(""), deleting)},
			[]string{"delete stuck with grace 0", "get out", "delete stuck with grace 0", "patch status of never", "delete never with grace 0"}},
		"PODGC-9: out of service":         {1, []runtime.Object{gone, pod("stuck", on("out"), deleting), pod("stays", on("out"))}, []string{"get out", "patch status of stuck", "delete stuck with grace 0"}},
		"PODGC-11, PODGC-22: unscheduled": {0, []runtime.Object{ready, pod("never", on(""), deleting), pod("waits", on(""))}, []string{"patch status of never", "delete never with grace 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, gc := fixture(t, tc.threshold, tc.objects...)
			// The cache may show a deletion before the next part of the pass, or after; here it does not show it.
			env.Fake.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
			if got := pass(env, gc); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// The cache may still show a node that was taken into service again: its pods run, and end by themselves.
func TestPodsOfANodeThatMayBeInServiceAreKept(t *testing.T) {
	for name, tc := range map[string]struct {
		live *corev1.Node
		err  error
	}{
		"PODGC-35: the taint is gone": {node("out", corev1.ConditionFalse), nil},
		"PODGC-35: it is ready":       {node("out", corev1.ConditionTrue, corev1.TaintNodeOutOfService), nil},
		"PODGC-35: it cannot be read": {node("out", corev1.ConditionFalse, corev1.TaintNodeOutOfService), errors.New("boom")},
		"PODGC-35: nothing is known":  {node("other", corev1.ConditionTrue), nil},
	} {
		t.Run(name, func(t *testing.T) {
			env, gc := fixture(t, 0, tc.live, pod("ends", on("out"), deleting))
			env.Cache(t, node("out", corev1.ConditionFalse, corev1.TaintNodeOutOfService))
			if tc.err != nil {
				env.Refuse("get nodes out", tc.err)
			}
			if got, want := pass(env, gc), []string{"get out"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// With the limits of the client, a pass over many pods takes minutes, and a node may come back meanwhile.
func TestPodsOfANodeThatComesBackDuringAPassAreKept(t *testing.T) {
	out := func(name string) *corev1.Node {
		return node(name, corev1.ConditionFalse, corev1.TaintNodeOutOfService)
	}
	for name, tc := range map[string]struct {
		before []runtime.Object
		back   *corev1.Node
		option podOption
	}{
		"PODGC-36: it is registered again": {nil, node("z", corev1.ConditionFalse), phase(corev1.PodFailed)},
		"PODGC-36: it is ready":            {[]runtime.Object{out("a"), out("z")}, node("z", corev1.ConditionTrue, corev1.TaintNodeOutOfService), deleting},
		"PODGC-36: the taint is gone":      {[]runtime.Object{out("a"), out("z")}, node("z", corev1.ConditionFalse), deleting},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]runtime.Object{pod("last", on("z"), tc.option)}, tc.before...)
			for n := range maxConcurrent {
				objects = append(objects, pod(fmt.Sprintf("first-%02d", n), on("a"), tc.option, age(time.Hour)))
			}
			env, gc := fixture(t, 0, objects...)
			if tc.before == nil {
				pass(env, gc)
				env.Clock.Step(quarantinePeriod)
			}
			var once sync.Once
			env.Fake.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				once.Do(func() { env.Cache(t, tc.back) })
				return true, nil, nil
			})
			got := pass(env, gc)
			if slices.ContainsFunc(got, func(request string) bool { return strings.Contains(request, "last") }) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Each node is read once, when its time is over. Pins PODGC-10, PODGC-16 and PODGC-33.
func TestPodsOfAMissingNode(t *testing.T) {
	env, gc := fixture(t, 0, node("node", corev1.ConditionTrue), pod("lost", on("missing")), pod("ended", on("missing"), phase(corev1.PodSucceeded)), pod("fine"))
	if got := pass(env, gc); got != nil {
		t.Errorf("at once: %q", got)
	}
	env.Clock.Step(39 * time.Second)
	if got := pass(env, gc); got != nil {
		t.Errorf("in quarantine: %q", got)
	}
	env.Clock.Step(time.Second)
	got := pass(env, gc)
	slices.Sort(got)
	if want := []string{"delete ended with grace 0", "delete lost with grace 0", "get missing", "patch status of lost"}; !slices.Equal(got, want) {
		t.Errorf("after quarantine: %q", got)
	}
	controllertest.Eventually(t, "the pods are gone", func() bool { return len(gc.indexed(index.PodsByNode, "missing")) == 0 })
	for range 3 {
		if got := pass(env, gc); got != nil {
			t.Errorf("in a pass after it: %q", got)
		}
		env.Clock.Step(passPeriod)
	}
	env.WantEvents(t)
}

// A new pod may have been bound to a node that is registered again while it is read. Pins PODGC-12.
func TestPodsThatArriveWhileTheirNodeIsReadAreKept(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	pass(env, gc)
	env.Intercept("get nodes missing", func(clienttesting.Action) error {
		env.Store(t, pod("new", on("missing")))
		controllertest.Eventually(t, "the cache shows it", func() bool { return len(gc.indexed(index.PodsByNode, "missing")) == 2 })
		return apierrors.NewNotFound(corev1.Resource("nodes"), "missing")
	})
	env.Clock.Step(quarantinePeriod)
	if got, want := pass(env, gc), []string{"get missing", "patch status of lost", "delete lost with grace 0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnOrphanThatCouldNotBeDeletedIsTriedAgainAfterAnotherQuarantine(t *testing.T) {
	for name, refused := range map[string]string{"PODGC-19: it cannot be failed": "patch pods/status lost", "PODGC-34: its node cannot be read": "get nodes missing"} {
		t.Run(name, func(t *testing.T) {
			env, gc := fixture(t, 0, pod("lost", on("missing")))
			env.RefuseIf(refused, apierrors.NewInternalError(errors.New("boom")), func(n int) bool { return n == 1 })
			pass(env, gc)
			env.Clock.Step(quarantinePeriod)
			if got := pass(env, gc); !slices.Contains(got, "get missing") || slices.Contains(got, "delete lost with grace 0") {
				t.Errorf("when it is refused: %q", got)
			}
			env.Clock.Step(passPeriod)
			if got := pass(env, gc); got != nil {
				t.Errorf("in the next pass: %q", got)
			}
			env.Clock.Step(passPeriod)
			if got, want := pass(env, gc), []string{"get missing", "patch status of lost", "delete lost with grace 0"}; !slices.Equal(got, want) {
				t.Errorf("in the pass after it: %q, want %q", got, want)
			}
		})
	}
}

// The cache may still show a pod whose name belongs to another one, such as that of a StatefulSet. Pins PODGC-32.
func TestAPodThatTookTheNameIsKept(t *testing.T) {
	env := controllertest.New(t, pod("web-0", uid("b")))
	gc, err := newController(env.Env, config{threshold: 1})
	if err != nil {
		t.Fatal(err)
	}
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

// Workers wait for the caches of pods and of nodes: without its node, a pod would be an orphan.
func TestPassesBeginWithCompleteCaches(t *testing.T) {
	for name, late := range map[string]string{"PODGC-3: pods": "pods", "PODGC-3: nodes": "nodes"} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, node("node", corev1.ConditionTrue), pod("never", on(""), deleting))
			var refused, allowed atomic.Bool
			env.Fake.PrependReactor("list", late, func(clienttesting.Action) (bool, runtime.Object, error) {
				refused.Store(true)
				return !allowed.Load(), nil, errors.New("not yet")
			})
			gc, err := newController(env.Env, config{})
			if err != nil {
				t.Fatal(err)
			}
			env.Informers.StartWithContext(env.Context())
			env.Run(t, gc)
			controllertest.Eventually(t, "the list has failed", refused.Load)
			await.Stays(t, "nothing is deleted", 50*time.Millisecond, func(context.Context) error {
				if sent := env.Writes(); len(sent) > 0 {
					return fmt.Errorf("%v", sent)
				}
				return nil
			})
			allowed.Store(true)
			controllertest.Eventually(t, "the pod is deleted", func() bool { return len(env.Writes()) == 2 })
		})
	}
}

// A pass over a healthy cluster reads what the indexes have, and lists no pod. Pins PODGC-26 and PODGC-28.
func TestAPassOverAHealthyClusterLooksAtNoPod(t *testing.T) {
	env, gc := fixture(t, 1, node("node", corev1.ConditionTrue), pod("a"), pod("b"), pod("c", phase(corev1.PodPending)))
	gc.pods = indexOnly{gc.pods, t}
	if got := pass(env, gc); got != nil {
		t.Errorf("sent %q", got)
	}
}

// indexOnly is an indexer that must not be listed, nor asked for the pods of a node.
type indexOnly struct {
	cache.Indexer
	t *testing.T
}

func (i indexOnly) List() []any {
	i.t.Error("all pods were listed")
	return nil
}

func (i indexOnly) ByIndex(name, key string) ([]any, error) {
	found, err := i.Indexer.ByIndex(name, key)
	if len(found) > 0 {
		i.t.Errorf("%d pods of %s %s were looked at", len(found), name, key)
	}
	return found, err
}

// Pins PODGC-10 and PODGC-20.
func TestANodeThatMayExistKeepsItsPods(t *testing.T) {
	for name, answer := range map[string]error{"it exists": nil, "the lookup fails": errors.New("boom"), "it is forbidden": apierrors.NewForbidden(corev1.Resource("nodes"), "missing", nil)} {
		t.Run(name, func(t *testing.T) {
			env, gc := fixture(t, 0, pod("lost", on("missing")))
			env.Fake.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, node("missing", corev1.ConditionTrue), answer
			})
			pass(env, gc)
			env.Clock.Step(time.Minute)
			if got := pass(env, gc); !slices.Equal(got, []string{"get missing"}) {
				t.Errorf("got %q", got)
			}
		})
	}
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

// Pins PODGC-31.
func TestAStopEndsAPassBetweenPods(t *testing.T) {
	env, gc := fixture(t, 0, pod("never", on(""), deleting))
	stopped, stop := context.WithCancel(env.Context())
	stop()
	gc.pass(stopped, env.Context())
	if requests := env.Fake.Actions(); len(requests) != 0 {
		t.Errorf("requests: %v", requests)
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

// Pins PODGC-6.
func TestRunPassesAgainAndAgainAndHandsOver(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	stop := env.Run(t, gc)
	env.EventuallyAsTimePasses(t, "the orphan is deleted", passPeriod, func() bool {
		_, err := env.Fake.CoreV1().Pods("ns").Get(t.Context(), "lost", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	stop()
	if left, ok := env.Succession.HandOver().(handover); !ok {
		t.Errorf("handed over: %T", left)
	}
}

// after starts a successor of a controller, after a time, and returns the requests of its
// first pass.
func after(t *testing.T, env *controllertest.Env, left any, d time.Duration) []string {
	t.Helper()
	env.Clock.Step(d)
	env.Succeed(left)
	successor, err := newController(env.Env, config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := successor.begin(env.Context()); err != nil {
		t.Fatal(err)
	}
	return pass(env, successor)
}

// Pins PODGC-30.
func TestTheQuarantineGoesOnAfterARestart(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	pass(env, gc)
	env.Clock.Step(35 * time.Second)
	if got := after(t, env, gc.HandOver(), 5*time.Second); !slices.Contains(got, "delete lost with grace 0") {
		t.Errorf("got %q", got)
	}
}

// Wherever a stop ends the pass in which nodes are due, the successor continues with them in its first pass.
// Pins PODGC-30.
func TestNodesThatWereDueAtAStopAreHandedOver(t *testing.T) {
	for _, last := range []string{"get nodes", "patch pods/status", "delete pods"} {
		t.Run(last, func(t *testing.T) {
			env, gc := fixture(t, 0, pod("a", on("missing-a")), pod("b", on("missing-b")))
			pass(env, gc)
			stopped, stop := context.WithCancel(env.Context())
			defer stop()
			allow := env.Refuse(last, apierrors.NewInternalError(errors.New("boom")))
			env.Intercept(last, func(clienttesting.Action) error {
				stop()
				return nil
			})
			env.Clock.Step(quarantinePeriod)
			gc.pass(stopped, env.Context())
			allow()
			env.Fake.ClearActions()
			got := after(t, env, gc.HandOver(), time.Second)
			if !slices.Contains(got, "delete a with grace 0") || !slices.Contains(got, "delete b with grace 0") {
				t.Errorf("the successor sent %q", got)
			}
		})
	}
}

// A node may have been registered and removed again while another process looked: it gets
// its whole time from when it is missed again.
// Pins PODGC-30.
func TestTheQuarantineDoesNotOutliveAStandby(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	pass(env, gc)
	left := gc.HandOver()
	if got := after(t, env, left, time.Minute); got != nil {
		t.Errorf("without quarantine: %q", got)
	}
}

// An instance that is stopped before it could begin passes on what it was given, as old as
// it is.
// Pins PODGC-30.
func TestTheQuarantineIsPassedOnByAnInstanceThatDidNotBegin(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	pass(env, gc)
	env.Succeed(gc.HandOver())
	env.Clock.Step(time.Minute)
	if got := after(t, env, env.Succession.HandOver(), time.Second); got != nil {
		t.Errorf("without quarantine: %q", got)
	}
}

// TestANodeThatWasRegisteredInBetweenGetsItsWholeTime: it has not been missing for 40 seconds.
// Pins PODGC-30.
func TestANodeThatWasRegisteredInBetweenGetsItsWholeTime(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	nodes := env.Fake.CoreV1().Nodes()
	shown := func(want bool) func() bool {
		return func() bool {
			_, err := gc.nodes.Get("missing")
			return (err == nil) == want
		}
	}
	pass(env, gc)
	if _, err := nodes.Create(t.Context(), node("missing", corev1.ConditionTrue), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the node is there", shown(true))
	env.Clock.Step(passPeriod)
	pass(env, gc)
	if err := nodes.Delete(t.Context(), "missing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the node is gone", shown(false))
	env.Fake.ClearActions()
	env.Clock.Step(passPeriod)
	if got := pass(env, gc); got != nil {
		t.Errorf("missing for no time: %q", got)
	}
	env.Clock.Step(quarantinePeriod)
	if got := pass(env, gc); !slices.Contains(got, "delete lost with grace 0") {
		t.Errorf("after its time: %q", got)
	}
}

// Only the quarantine is lost if nothing is handed over: a node that was almost due has its whole time again, and what
// no quarantine holds up is deleted in the first pass. Pins PODGC-24.
func TestWithoutAHandoverOnlyOrphansAreDeletedLater(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")), pod("never", on(""), deleting, phase(corev1.PodFailed)))
	env.Refuse("delete pods never", errors.New("boom"))
	pass(env, gc)
	env.Clock.Step(quarantinePeriod - time.Second)
	env.Succeed(nil)
	successor, err := newController(env.Env, config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := successor.begin(env.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := pass(env, successor); !slices.Equal(got, []string{"delete never with grace 0"}) {
			t.Errorf("a pass before the node is due sent %q", got)
		}
		env.Clock.Step(quarantinePeriod - time.Second)
	}
	if got := pass(env, successor); !slices.Contains(got, "delete lost with grace 0") {
		t.Errorf("a pass after it sent %q", got)
	}
}

// A pod costs a deletion, and a patch if it has not ended. Pins PODGC-25.
func TestRequestsForADeadNode(t *testing.T) {
	var objects []runtime.Object
	for n := range 30 {
		objects = append(objects, pod(fmt.Sprint("running-", n), on("missing")), pod(fmt.Sprint("failed-", n), on("missing"), phase(corev1.PodFailed)))
	}
	env, gc := fixture(t, 0, objects...)
	pass(env, gc)
	env.Clock.Step(quarantinePeriod)
	sent := map[string]int{}
	for _, request := range pass(env, gc) {
		verb, _, _ := strings.Cut(request, " ")
		sent[verb]++
	}
	if want := map[string]int{"get": 1, "patch": 30, "delete": 60}; !maps.Equal(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
}

// Pins PODGC-1.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, _ := d.Enabled(cfg); !enabled || d.Name != "pod-garbage-collector-controller" || !slices.Equal(d.Aliases, []string{"podgc"}) || d.ServiceAccount != "pod-garbage-collector" || d.Gate != "" {
		t.Errorf("%+v", d)
	}
	if d.Value(cfg) != (config{threshold: 12500}) {
		t.Errorf("value: %+v", d.Value(cfg))
	}
	if _, err := d.New(controllertest.New(t).Env, d.Value(cfg)); err != nil {
		t.Error(err)
	}
}

func BenchmarkPass(b *testing.B) {
	for _, pods := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			objects := []runtime.Object{node("node", corev1.ConditionTrue)}
			for n := range pods {
				objects = append(objects, pod(fmt.Sprint("pod-", n)))
			}
			env, gc := fixture(b, 12500, objects...)
			b.ReportAllocs()
			for b.Loop() {
				gc.pass(env.Context(), env.Context())
			}
		})
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
