package daemonset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// TestRun watches the controller at work, and its successor.
func TestRun(t *testing.T) {
	h := newHarness(t, true, newSet(), newNode("n0"))
	d := Descriptor()
	run := func(env *controllertest.Env) (controller.Controller, func()) {
		instance := must.Get(d.New(env.Env, d.Value(v1beta1.NewDefault())))(t)
		env.Start(t)
		return instance, env.Run(t, instance)
	}
	// The metrics of the harness's own controller are in the way of another one's.
	h.Succeed(nil)
	first, stop := run(h.Env)
	waitForPods(t, h, 1)
	h.Store(t, newNode("n1"))
	waitForPods(t, h, 2)
	first.(*daemonSetController).failures.backoff.Next("key", h.Clock.Now())
	stop()

	h.Succeed(h.Succession.HandOver())
	second, stop := run(h.Env)
	h.Store(t, newNode("n2"))
	waitForPods(t, h, 3)
	stop()
	if got := second.(*daemonSetController).failures.backoff.Get("key"); got != time.Second {
		t.Errorf("the backoff handed over is %v", got)
	}
}

// An unscheduled pod goes with the node that it is pinned to, and the status no longer counts it. There is no event of
// the pod. Pins DS-68.
func TestANodeTakesItsUnscheduledPodAlong(t *testing.T) {
	zone := func(name string) func(*corev1.Node) { return func(n *corev1.Node) { n.Labels["zone"] = name } }
	inA := func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"} }
	for name, leave := range map[string]func(t *testing.T, h *harness){
		"it is deleted":    func(t *testing.T, h *harness) { h.Remove(t, newNode("n1")) },
		"it is relabelled": func(t *testing.T, h *harness) { h.Store(t, controllertest.Changed(newNode("n1"), zone("b"))) },
	} {
		t.Run(name, func(t *testing.T) {
			h := runOnTwoNodes(t, newSet(inA), controllertest.Changed(newNode("n0"), zone("a")), controllertest.Changed(newNode("n1"), zone("a")))
			h.awaitQuiet(t, "both nodes have their pods", func(s appsv1.DaemonSetStatus) bool { return s.CurrentNumberScheduled == 2 })
			leave(t, h)
			waitForPods(t, h, 1)
			h.EventuallyAsTimePasses(t, "the status is written", time.Second, func() bool {
				return h.set(t).Status.DesiredNumberScheduled == 1
			})
		})
	}
}

// Before that, the node may have got a taint with which the pod could stay. Pins DS-68.
func TestATaintedNodeTakesItsUnscheduledPodAlong(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, h *harness){
		"it is deleted":      func(t *testing.T, h *harness) { h.Remove(t, newNode("n1")) },
		"it drives pods out": func(t *testing.T, h *harness) { h.Store(t, newNode("n1", taint("NoExecute"))) },
	} {
		t.Run(name, func(t *testing.T) {
			h := runOnTwoNodes(t, newSet(), newNode("n0"), newNode("n1"))
			h.Store(t, newNode("n1", taint("NoSchedule")))
			h.awaitQuiet(t, "the pod is out of place", func(s appsv1.DaemonSetStatus) bool { return s.NumberMisscheduled == 1 })
			leave(t, h)
			waitForPods(t, h, 1)
			h.EventuallyAsTimePasses(t, "the status is written", time.Second, func() bool {
				return h.set(t).Status.NumberMisscheduled == 0
			})
		})
	}
}

// The API server refuses something for one node, as an admission webhook may. Pins DS-72.
func TestWhatIsRefusedForOneNodeStopsNoOther(t *testing.T) {
	t.Run("a pod is not deleted", func(t *testing.T) {
		h := runOnTwoNodes(t, newSet(), newNode("n0"), newNode("n1"))
		on := map[string]*corev1.Pod{}
		for _, pod := range h.pods(t) {
			pod.Spec.NodeName, pod.Status = targetOf(pod), newPod("", "").Status
			on[pod.Spec.NodeName] = pod
			h.Store(t, pod)
		}
		h.awaitQuiet(t, "all are available", func(s appsv1.DaemonSetStatus) bool { return s.NumberAvailable == 2 })
		h.Refuse("delete pods "+on["n0"].Name, errRefused)
		h.change(t, image("v2"))
		h.EventuallyAsTimePasses(t, "the other one is replaced", time.Second, func() bool {
			return !slices.ContainsFunc(h.pods(t), func(pod *corev1.Pod) bool { return pod.UID == on["n1"].UID })
		})
	})
	t.Run("a pod is not created", func(t *testing.T) {
		h := newHarness(t, true, newSet(), newNode("n0"), newNode("n1"))
		h.Intercept("create pods", func(action ktesting.Action) error {
			if targetOf(action.(ktesting.CreateAction).GetObject().(*corev1.Pod)) == "n0" {
				return errRefused
			}
			return nil
		})
		h.c.owners.Queue = h.c.owners.Loop
		h.Start(t)
		h.Run(t, h.c)
		waitForPods(t, h, 1)
	})
}

var errRefused = apierrors.NewForbidden(pods.Resource, "", errors.New("no"))

// runOnTwoNodes runs the controller until a set has its pods on two nodes, not scheduled yet.
func runOnTwoNodes(t *testing.T, objects ...runtime.Object) *harness {
	t.Helper()
	h := newHarness(t, true, objects...)
	h.c.owners.Queue = h.c.owners.Loop
	h.Start(t)
	h.Run(t, h.c)
	waitForPods(t, h, 2)
	return h
}

// awaitQuiet waits until the status is as wanted and nothing is left to do, nor waits for its time.
func (h *harness) awaitQuiet(t *testing.T, what string, wanted func(appsv1.DaemonSetStatus) bool) {
	t.Helper()
	h.EventuallyAsTimePasses(t, what+", and nothing is left to do", time.Second, func() bool {
		waiting := h.c.owners.Loop.Keys(func(string) bool { return true })
		return wanted(h.set(t).Status) && len(waiting) == 0 && h.Idle()
	})
}

func waitForPods(t *testing.T, h *harness, n int) {
	t.Helper()
	h.EventuallyAsTimePasses(t, fmt.Sprintf("there are %d pods", n), 10*time.Millisecond, func() bool {
		return len(h.pods(t)) == n
	})
}

// Pins DS-59.
func TestUnseenWritesAreHandedOver(t *testing.T) {
	h := newHarness(t, true, newSet())
	h.c.owners.Writes.Wrote(newSet(), pods.Resource, "100000")
	h.Succeed(h.c.HandOver())
	successor := must.Get(newController(h.Env.Env, config{concurrentSyncs: 1, requireFresh: true}))(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := successor.Run(ctx); err != nil {
		t.Fatal(err)
	}
	h.CatchUp(t)
	if err := successor.owners.Reconcile(h.Context(), key); err == nil {
		t.Error("the successor does not wait for what was written")
	}
	if requests := h.Requests(); len(requests) != 0 {
		t.Errorf("requests are %v", requests)
	}
}

// Pins DS-25.
func TestOldBackoffsAreForgotten(t *testing.T) {
	h := newHarness(t, true)
	h.c.failures.backoff.Next("key", h.Clock.Now())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.c.failures.expire(ctx, h.Clock)
	}()
	h.EventuallyAsTimePasses(t, "it is forgotten", expireInterval, func() bool {
		return h.c.failures.backoff.Get("key") == 0
	})
	stop()
	<-done
}
