package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

var nodesResource = schema.GroupResource{Resource: "nodes"}

// TestWhenANodeIsSilent has one node that is observed, beside one that is fine.
func TestWhenANodeIsSilent(t *testing.T) {
	for name, tc := range map[string]struct {
		node *corev1.Node
		// then is what happens to it, between passes, after 40 seconds.
		then func(t *testing.T, w *world)
		want time.Duration // when Ready becomes Unknown, 0 for never
	}{
		"NLC-8, NLC-45: nothing is heard": {node: node("n"), want: 55 * time.Second},
		"NLC-44: its Lease is renewed":    {node: node("n"), then: func(_ *testing.T, w *world) { w.renew("n") }, want: 95 * time.Second},
		"NLC-44: its Lease is renewed by a clock that is behind, but moves": {
			node: node("n"), want: 95 * time.Second,
			then: func(_ *testing.T, w *world) {
				w.cluster.renew(lease("n", "1", at.Add(-time.Hour)), w.Env.Clock.Now())
			},
		},
		"NLC-44: its Lease is shown without a renewal": {
			node: node("n"), want: 55 * time.Second,
			then: func(_ *testing.T, w *world) {
				w.cluster.renew(&coordinationv1.Lease{ObjectMeta: lease("n", "1", at).ObjectMeta}, w.Env.Clock.Now())
			},
		},
		"NLC-43: its status has a heartbeat": {node: node("n"), then: func(t *testing.T, w *world) { w.report(t, "n") }, want: 95 * time.Second},
		"NLC-43: the answer to labeling it shows a heartbeat": {
			node: node("n"), want: 95 * time.Second,
			then: func(t *testing.T, w *world) {
				w.show(t, node("n", func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "linux" }))
				w.RefuseIf("patch nodes n", nil, func(attempt int) bool {
					if attempt == 1 {
						controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) {
							conditionOf(n, corev1.NodeReady).LastHeartbeatTime = metav1.NewTime(w.Env.Clock.Now())
						})
					}
					return false
				})
				reconciled(t, w, "n")
			},
		},
		"NLC-43: its labels change": {
			node: node("n"), want: 55 * time.Second,
			then: func(t *testing.T, w *world) {
				w.show(t, node("n", func(n *corev1.Node) { n.ResourceVersion, n.Labels["x"] = "2", "y" }))
			},
		},
		"NLC-7, NLC-85: it has no condition": {node: node("n", lacks(corev1.NodeReady)), want: 65 * time.Second},
		"NLC-85: its condition vanishes": {
			node: node("n"), then: func(t *testing.T, w *world) { w.report(t, "n", lacks(corev1.NodeReady)) }, want: 65 * time.Second,
		},
		"NLC-43: its condition appears": {
			node: node("n", lacks(corev1.NodeReady)), want: 95 * time.Second,
			then: func(t *testing.T, w *world) { w.report(t, "n", ready(corev1.ConditionTrue)) },
		},
		"NLC-47: it never posted a status, but renews": {
			node: node("n", lacks(corev1.NodeReady)), then: func(_ *testing.T, w *world) { w.silent["n"] = false },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, settings, tc.node, node("other", inZone("b")))
			w.work(t)
			w.fall("n")
			w.live(t, 40*time.Second)
			if tc.then != nil {
				tc.then(t, w)
			}
			for passed := 40 * time.Second; passed < 3*time.Minute; passed += w.period {
				w.live(t, w.period)
				since := passed + w.period
				if unknown := statusOf(w.stored(t, "n")) == corev1.ConditionUnknown; unknown != (tc.want > 0 && since >= tc.want) {
					t.Fatalf("Unknown is %v after %v, want it after %v", unknown, since, tc.want)
				}
			}
			w.wantReady(t, "other", corev1.ConditionTrue)
		})
	}
}

// Pins NLC-19, NLC-39b, NLC-39c, NLC-46, NLC-51, NLC-67, NLC-86 and NLC-87. All that is sent for a node.
func TestANodeFallsSilentAndComesBack(t *testing.T) {
	w := newWorld(t, settings, node("n"), node("other"), pod("p", "n"), pod("elsewhere", "other"),
		controllertest.Pod("ns", "never", controllertest.OnNode("n")))
	w.work(t)
	w.WantRequests(t)
	w.WantEvents(t, "Normal RegisteredNode Node n event: Registered Node n in Controller", "Normal RegisteredNode Node other event: Registered Node other in Controller")
	w.fall("n")
	w.live(t, time.Minute)
	w.WantRequestsInAnyOrder(t, "update nodes/status n", "patch nodes n", "patch pods/status p")
	w.WantEvents(t, "Normal NodeNotReady Node n status is now: NodeNotReady", "Warning NodeNotReady Node is not ready")
	w.wantReady(t, "n", corev1.ConditionUnknown)
	if got := names(w.stored(t, "n").Spec.Taints); got != "unreachable:NoSchedule unreachable:NoExecute" {
		t.Errorf("taints are %s", got)
	}
	p := controllertest.MustStored[*corev1.Pod](t, w.Env, "ns", "p")
	if c := p.Status.Conditions[0]; c.Status != corev1.ConditionFalse || !c.LastTransitionTime.Time.Equal(at.Add(55*time.Second)) {
		t.Errorf("the condition of the pod is %+v", c)
	}
	if got := w.Series(t, "node_collector_evictions_total"); !slices.Equal(got, []string{"zone=" + zoneNamed("a") + " 1"}) {
		t.Errorf("evictions are %q", got)
	}

	w.live(t, 5*time.Minute)
	w.WantRequests(t)
	delete(w.silent, "n")
	w.report(t, "n", ready(corev1.ConditionTrue))
	w.work(t)
	w.WantRequests(t, "patch nodes n")
	w.wantEvicted(t, "")
	w.live(t, 5*time.Minute)
	w.WantRequests(t)
	w.WantEvents(t)
}

// Pins NLC-39e, NLC-52, NLC-67 and NLC-71. That a kubelet reports its node as not ready is no silence.
func TestAKubeletReportsItsNodeAsNotReady(t *testing.T) {
	hasty := settings
	hasty.period, hasty.grace = time.Second, time.Millisecond
	w := newWorld(t, hasty, node("n"), node("other"), pod("p", "n"))
	w.work(t)
	w.report(t, "n", ready(corev1.ConditionFalse))
	w.Env.Clock.Step(time.Second)
	w.renew("other")
	w.work(t)
	if got := names(w.stored(t, "n").Spec.Taints); got != "not-ready:NoSchedule not-ready:NoExecute" {
		t.Errorf("taints are %s", got)
	}
	w.RecordedEvents()
	w.Env.Clock.Step(time.Second)
	w.renew("other")
	w.work(t)
	w.wantReady(t, "n", corev1.ConditionUnknown)
	if got := names(w.stored(t, "n").Spec.Taints); got != "unreachable:NoSchedule unreachable:NoExecute" {
		t.Errorf("taints are %s", got)
	}
	w.WantEvents(t)
	if p := controllertest.MustStored[*corev1.Pod](t, w.Env, "ns", "p"); !isShownReady(p) {
		t.Error("a pod was marked")
	}
}

// Pins NLC-33, NLC-35, NLC-36, NLC-67, NLC-85 and NLC-95.
func TestNodesAreAnnounced(t *testing.T) {
	w := newWorld(t, settings, node("n"))
	w.WantEvents(t)
	w.work(t)
	w.WantEvents(t, "Normal RegisteredNode Node n event: Registered Node n in Controller")
	w.live(t, time.Minute)
	w.WantEvents(t)
	again := node("n", lacks(corev1.NodeReady), func(n *corev1.Node) { n.UID = "n-2" })
	w.Env.Store(t, again)
	w.show(t, again)
	w.work(t)
	w.WantEvents(t, "Normal RemovingNode Node n event: Removing Node n from Controller", "Normal RegisteredNode Node n event: Registered Node n in Controller")
	if got := statusOf(w.stored(t, "n")); got != "" {
		t.Errorf("a node that was created again is %s", got)
	}
	w.cluster.delete(again)
	w.Env.Remove(t, again)
	w.Uncache(t, again)
	w.pass(w.Context(), w.Context())
	w.WantEvents(t, "Normal RemovingNode Node n event: Removing Node n from Controller")
	if len(w.cluster.nodes) != 0 || len(w.cluster.zones) != 0 {
		t.Errorf("%d nodes and %d zones are remembered", len(w.cluster.nodes), len(w.cluster.zones))
	}
}

func TestWritesThatFail(t *testing.T) {
	boom, conflict := errors.New("boom"), apierrors.NewConflict(nodesResource, "n", errors.New("changed"))
	first := func(n int) bool { return n == 1 }
	t.Run("NLC-37, NLC-79, NLC-94: a conflict of the status", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("other"))
		w.RefuseIf("update nodes/status n", conflict, first)
		w.work(t)
		w.fall("n")
		w.live(t, 55*time.Second)
		w.WantRequests(t, "update nodes/status n", "get nodes n", "update nodes/status n", "patch nodes n")
	})
	t.Run("NLC-37, NLC-43: a conflict, because the node has a heartbeat", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("other"))
		w.RefuseIf("update nodes/status n", conflict, first)
		w.work(t)
		w.fall("n")
		w.live(t, 50*time.Second)
		controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) {
			conditionOf(n, corev1.NodeReady).LastHeartbeatTime = metav1.NewTime(w.Env.Clock.Now())
		})
		w.live(t, 5*time.Second)
		w.WantRequests(t, "update nodes/status n", "get nodes n")
		w.wantReady(t, "n", corev1.ConditionTrue)
	})
	t.Run("NLC-94: another failure is retried by the next pass", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("other"))
		w.RefuseIf("update nodes/status n", boom, first)
		w.work(t)
		w.fall("n")
		w.live(t, 55*time.Second)
		w.WantRequests(t, "update nodes/status n")
		w.live(t, 5*time.Second)
		w.wantReady(t, "n", corev1.ConditionUnknown)
	})
	for name, find := range map[string]func(*world){
		"seen": func(w *world) { w.show(t, w.stored(t, "n")) },
		"read after a conflict": func(w *world) {
			w.RefuseIf("update nodes/status n", conflict, first)
			w.wait("other")
			w.WantRequests(t, "update nodes/status n", "update nodes/status n", "get nodes n")
		},
		"seen by another instance": func(w *world) { w.succeed(t, settings, w.HandOver()) },
	} {
		t.Run("NLC-100: the answer is lost, and what was written is "+name, func(t *testing.T) {
			w := newWorld(t, settings, node("n"), node("other"), pod("p", "n"))
			w.work(t)
			w.RefuseIf("update nodes/status n", boom, first)
			w.fall("n")
			w.live(t, 50*time.Second)
			w.wait("other")
			controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) { n.Status.Conditions = unknownConditions(n, w.Env.Clock.Now()) })
			find(w)
			if err := w.markPodsOf(w.Context(), "n"); err != nil {
				t.Error(err)
			}
			if p := controllertest.MustStored[*corev1.Pod](t, w.Env, "ns", "p"); isShownReady(p) {
				t.Error("the pod is shown as ready")
			}
		})
	}
	t.Run("NLC-49: a conflict of taints", func(t *testing.T) {
		w := newWorld(t, settings, node("n", ready(corev1.ConditionFalse)))
		w.RefuseIf("patch nodes n", conflict, first)
		if err := w.reconcileNode(w.Context(), "n"); err != nil {
			t.Fatal(err)
		}
		w.WantRequests(t, "patch nodes n", "get nodes n", "patch nodes n")
	})
	t.Run("NLC-39d, NLC-93: a pod that cannot be marked", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("other"), pod("p", "n"), pod("r", "n"))
		allow := w.Refuse("patch pods/status p", boom)
		w.fall("n")
		for range 12 {
			w.pass(w.Context(), w.Context())
			w.Env.Clock.Step(5 * time.Second)
			w.renew("other")
		}
		w.RecordedEvents()
		if err := w.markPodsOf(w.Context(), "n"); err == nil || !errors.Is(err, boom) {
			t.Errorf("error %v", err)
		}
		w.WantEvents(t, "Warning NodeNotReady Node is not ready", "Warning NodeNotReady Node is not ready") // p and r
		allow()
		w.CatchUp(t, &corev1.Pod{})
		if err := w.markPodsOf(w.Context(), "n"); err != nil {
			t.Error(err)
		}
		w.WantRequests(t, "patch pods/status p")
		if err := w.markPodsOf(w.Context(), "n"); err != nil {
			t.Error(err)
		}
		w.WantRequests(t)
	})
	noPod := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	t.Run("NLC-102: a pod of a silent node that is said to be gone", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), pod("p", "n"), pod("q", "n"))
		fallSilent(t, w)
		w.RefuseIf("patch pods/status p", noPod, first)
		if err := w.markPodsOf(w.Context(), "n"); err != nil {
			t.Error(err)
		}
		wantLater(t, w.markLoop.Keys)
		w.WantRequestsInAnyOrder(t, "patch pods/status p", "patch pods/status q")
		w.WantEvents(t, "Warning NodeNotReady Node is not ready") // q
		w.CatchUp(t, &corev1.Pod{})
		w.succeed(t, settings, w.HandOver())
		for _, want := range [][]string{{"patch pods/status p"}, nil} {
			if err := w.markPodsOf(w.Context(), "n"); err != nil {
				t.Error(err)
			}
			w.WantRequests(t, want...)
		}
	})
	t.Run("NLC-102: a pod of a silent node that is gone", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), pod("p", "n"))
		fallSilent(t, w)
		w.Refuse("patch pods/status p", noPod)
		for _, want := range [][]string{{"patch pods/status p"}, nil} {
			if err := w.markPodsOf(w.Context(), "n"); err != nil {
				t.Error(err)
			}
			w.WantRequests(t, want...)
			w.Uncache(t, pod("p", "n"))
		}
		if w.HandOver().nodes["n"].mustMark {
			t.Error("its pods are still to be marked")
		}
	})
	t.Run("NLC-102: a bound pod that is said to be gone", func(t *testing.T) {
		w := newWorld(t, settings, node("n", ready(corev1.ConditionFalse)), pod("p", "n"))
		w.RefuseIf("patch pods/status p", noPod, first)
		for range 2 {
			if err := w.reconcilePod(w.Context(), podKey); err != nil {
				t.Error(err)
			}
			wantLater(t, w.podLoop.Keys)
			w.WantRequests(t, "patch pods/status p")
		}
		w.WantEvents(t, "Warning NodeNotReady Node is not ready")
	})
	t.Run("NLC-87, NLC-93: a conflict of a pod", func(t *testing.T) {
		w := newWorld(t, settings, node("n", ready(corev1.ConditionFalse)), pod("p", "n"))
		w.RefuseIf("patch pods/status p", apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("changed")), first)
		if err := w.reconcilePod(w.Context(), podKey); !reconcile.IsExpected(err) {
			t.Errorf("error is %v, want a requeue", err)
		}
		w.WantEvents(t)
		if err := w.reconcilePod(w.Context(), podKey); err != nil {
			t.Error(err)
		}
		w.WantEvents(t, "Warning NodeNotReady Node is not ready")
		w.WantRequests(t, "patch pods/status p", "patch pods/status p")
	})
	t.Run("NLC-101: a pod in a paused namespace", func(t *testing.T) {
		w := newWorld(t, settings, node("n", ready(corev1.ConditionFalse)), pod("p", "n"))
		w.RefuseIf("patch pods/status p", &controller.PausedError{Namespace: "ns"}, first)
		if err := w.reconcilePod(w.Context(), podKey); len(controller.PausedIn(err)) != 1 {
			t.Errorf("error is %v, want the pause", err)
		}
		w.WantEvents(t)
		if err := w.reconcilePod(w.Context(), podKey); err != nil {
			t.Error(err)
		}
		w.WantEvents(t, "Warning NodeNotReady Node is not ready")
	})
	t.Run("NLC-29: a conflict of labels", func(t *testing.T) {
		w := newWorld(t, settings, node("n", func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "linux" }))
		w.RefuseIf("patch nodes n", conflict, first)
		if err := w.reconcileLabels(w.Context(), "n"); !reconcile.IsExpected(err) {
			t.Errorf("error is %v, want a requeue", err)
		}
		if err := w.reconcileLabels(w.Context(), "n"); err != nil {
			t.Error(err)
		}
		w.WantRequests(t, "patch nodes n", "patch nodes n")
	})
}

// fallSilent has the controller know that the node n, which is ready, is shown as silent, and its pods to be marked.
func fallSilent(t *testing.T, w *world) {
	t.Helper()
	w.cluster.expectUnknown("n")
	controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) { n.Status.Conditions = unknownConditions(n, at) })
	w.cluster.read(w.stored(t, "n"), at)
	if _, ok := w.cluster.confirmedUnknown("n"); !ok {
		t.Fatal("the node is not shown as silent")
	}
	w.Requests()
}

// wantLater fails the test unless a loop holds one key, that waits for a recheck.
func wantLater(t *testing.T, keys func(func(string) bool) []controller.LoopKey) {
	t.Helper()
	held := keys(func(string) bool { return true })
	if len(held) != 1 || !held[0].Until.Equal(at.Add(reconcile.RecheckAfter)) {
		t.Errorf("keys are %+v", held)
	}
}

// The API server may say so because of an admission webhook: the cache shows whether a node is gone. Pins NLC-102.
func TestAPatchDoesNotProveThatANodeIsGone(t *testing.T) {
	labels := func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "linux" }
	for name, n := range map[string]*corev1.Node{
		"taints": node("n", ready(corev1.ConditionFalse)),
		"labels": node("n", labels),
	} {
		for what, isGone := range map[string]bool{"it is there": false, "it is gone": true} {
			t.Run(name+": "+what, func(t *testing.T) {
				env := controllertest.New(t, n)
				env.RefuseIf("patch nodes n", apierrors.NewNotFound(nodesResource, "n"), func(times int) bool {
					if times == 1 && isGone {
						env.Remove(t, n)
					}
					return times == 1
				})
				c, err := newController(env.Env, settings)
				if err != nil {
					t.Fatal(err)
				}
				env.Start(t)
				env.Run(t, c)
				controllertest.Eventually(t, "the patch is refused", func() bool {
					newest, _ := c.cluster.newest("n")
					return c.nodeLoop.Inspect().Reconciled == 1 && (newest == nil) == isGone
				})
				env.Requests()
				env.EventuallyAsTimePasses(t, "the node is looked at again", time.Second, func() bool { return c.nodeLoop.Inspect().Reconciled > 1 })
				if took := env.Clock.Since(at); took < reconcile.RecheckAfter || took > 2*reconcile.RecheckAfter {
					t.Errorf("it is looked at again after %v", took)
				}
				if patched := slices.Contains(env.Requests(), "patch nodes n"); patched == isGone {
					t.Errorf("patched again is %v", patched)
				}
			})
		}
	}
}

// A node that comes back and falls silent again while its pods are marked has them marked once more. Pins NLC-93.
func TestANodeFallsSilentAgainWhileItsPodsAreMarked(t *testing.T) {
	w := newWorld(t, settings, node("n"), pod("p", "n"))
	fall := func() {
		w.cluster.expectUnknown("n")
		n := w.stored(t, "n")
		n.Status.Conditions = unknownConditions(n, at)
		w.show(t, n)
	}
	fall()
	again := sync.OnceFunc(func() {
		w.show(t, node("n"))
		fall()
	})
	w.Intercept("patch pods/status p", func(clienttesting.Action) error {
		again()
		return nil
	})
	for range 3 {
		if err := w.markPodsOf(w.Context(), "n"); err != nil {
			t.Fatal(err)
		}
	}
	w.WantRequests(t, "patch pods/status p", "patch pods/status p")
}

// Pins NLC-18, NLC-29, NLC-49 and NLC-86.
func TestPatches(t *testing.T) {
	n := node("n", tainted(noSchedule(foreign)))
	for want, body := range map[string]func() ([]byte, error){
		`{"metadata":{"resourceVersion":"1","uid":"n-1"},"spec":{"taints":[{"key":"example.com/foreign","effect":"NoSchedule"}]}}`: func() ([]byte, error) {
			return taintsPatch(n, n.Spec.Taints)
		},
		`{"metadata":{"resourceVersion":"1","uid":"n-1"},"spec":{"taints":[]}}`: func() ([]byte, error) { return taintsPatch(n, nil) },
		`{"metadata":{"labels":{"beta.kubernetes.io/os":"linux"},"uid":"n-1"}}`: func() ([]byte, error) {
			return labelsPatch(n, map[string]string{"beta.kubernetes.io/os": "linux"})
		},
		`{"metadata":{"uid":"p"},"status":{"conditions":[{"lastTransitionTime":"2026-01-02T03:04:05Z","status":"False","type":"Ready"}]}}`: func() ([]byte, error) {
			return notReadyPatch(pod("p", "n"), at)
		},
	} {
		if got, err := body(); err != nil || string(got) != want {
			t.Errorf("patch %s, error %v, want %s", got, err, want)
		}
	}
}

func TestPodsThatAreBound(t *testing.T) {
	unready := controllertest.Pod("ns", "p", controllertest.OnNode("n"))
	for name, tc := range map[string]struct {
		node   *corev1.Node
		pod    *corev1.Pod
		queued int
		want   []string
	}{
		"NLC-32: to a node that is not ready":         {node("n", ready(corev1.ConditionFalse)), pod("p", "n"), 1, []string{"patch pods/status p"}},
		"NLC-32: to a node that is ready":             {node("n"), pod("p", "n"), 0, nil},
		"NLC-32: to a node without a condition":       {node("n", lacks(corev1.NodeReady)), pod("p", "n"), 0, nil},
		"NLC-31, NLC-83: to a node that nobody knows": {node("other"), pod("p", "n"), 0, nil},
		"NLC-51, NLC-83: one that is not ready":       {node("n", ready(corev1.ConditionFalse)), unready, 0, nil},
		"NLC-15: one that is not bound":               {node("n", ready(corev1.ConditionFalse)), pod("p", ""), 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, settings, tc.node, tc.pod)
			w.bound(tc.pod)
			if got := w.podLoop.Inspect().Depth; got != tc.queued {
				t.Errorf("%d queued, want %d", got, tc.queued)
			}
			if err := w.reconcilePod(w.Context(), podKey); err != nil {
				t.Fatal(err)
			}
			w.WantRequests(t, tc.want...)
		})
	}
	t.Run("NLC-30: one that is gone", func(t *testing.T) {
		w := newWorld(t, settings, node("n", ready(corev1.ConditionFalse)))
		if err := w.reconcilePod(w.Context(), podKey); err != nil {
			t.Fatal(err)
		}
		w.WantRequests(t)
	})
}

// Pins NLC-84. Nobody is heard of any more: either all nodes are down, or nothing reaches us.
func TestNothingIsHeard(t *testing.T) {
	cut := errors.New("connection refused")
	t.Run("all nodes are down", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("m"))
		w.work(t)
		w.fall("n", "m")
		w.live(t, 55*time.Second)
		w.wantReady(t, "n", corev1.ConditionUnknown)
		w.wantReady(t, "m", corev1.ConditionUnknown)
		w.wantEvicted(t, "")
		w.Requests()
		w.live(t, 5*time.Minute)
		w.WantRequests(t)
	})
	t.Run("the connection is cut for two minutes", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("m"))
		w.work(t)
		w.live(t, time.Minute)
		w.fall("n", "m")
		allow := w.Refuse("get nodes", cut)
		refused := w.Refuse("update nodes/status", cut)
		w.Requests()
		w.live(t, 2*time.Minute)
		if requests := w.Requests(); slices.Contains(requests, "update nodes/status n") || len(requests) > 24 {
			t.Errorf("sent %q", requests)
		}
		allow()
		refused()
		w.live(t, 50*time.Second)
		w.wantReady(t, "n", corev1.ConditionTrue)
		w.live(t, 10*time.Second)
		w.wantReady(t, "n", corev1.ConditionUnknown)
	})
	t.Run("no watch shows Leases any more", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("m"))
		w.work(t)
		w.fall("n", "m")
		for range 60 {
			w.live(t, 5*time.Second)
			for _, name := range []string{"n", "m"} {
				w.Env.Store(t, lease(name, "", w.Env.Clock.Now()))
			}
		}
		w.wantReady(t, "n", corev1.ConditionTrue)
		w.wantReady(t, "m", corev1.ConditionTrue)
		if got := w.WriteVerbs(); len(got) != 0 {
			t.Errorf("sent %q", got)
		}
	})
}

// The clock of a node says nothing about when a renewal came. Pins NLC-44 and NLC-85.
func TestTheClockOfANodeIsSetBack(t *testing.T) {
	for name, tc := range map[string]struct {
		version string // of the Lease that is shown after 40 seconds, with a renewal two hours before the last one
		want    time.Duration
	}{
		"NLC-85: a newer Lease renews it":         {"6", 90 * time.Second},
		"NLC-85: an older one does not":           {"4", 50 * time.Second},
		"NLC-85: nor does the same":               {"5", 50 * time.Second},
		"NLC-85: nor one that cannot be compared": {"", 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, settings, node("n"), node("other"))
			w.work(t)
			w.fall("n")
			w.renewed(reconcile.Fresh, lease("n", "5", at.Add(2*time.Hour)))
			w.live(t, 40*time.Second)
			w.renewed(reconcile.Fresh, lease("n", tc.version, at))
			w.live(t, tc.want-40*time.Second)
			w.wantReady(t, "n", corev1.ConditionTrue)
			w.live(t, w.period)
			w.wantReady(t, "n", corev1.ConditionUnknown)
		})
	}
}

// Pins NLC-84. What happened to a node after Leases were last shown counts only once they are again.
func TestSilenceCountsAsFarAsLeasesAreShown(t *testing.T) {
	w := newWorld(t, settings, node("n"), node("other"))
	w.work(t)
	w.fall("n")
	w.live(t, 50*time.Second) // the other one was heard 5 seconds ago
	w.Env.Clock.Step(5 * time.Second)
	silent, _ := w.cluster.findSilent(w.Env.Clock.Now(), func() {})
	if !slices.Equal(silent, []string{"n"}) || w.cluster.areSilent(silent) || w.cluster.isSilent("n") {
		t.Errorf("%q seem to be silent, and are known to be", silent)
	}
	w.renew("other")
	if !w.cluster.areSilent(silent) || !w.cluster.isSilent("n") {
		t.Error("it is not known that the node is silent")
	}
}

// A silent node is shown as such when its grace period has ended, and not with the next regular
// pass. What cannot be done then is tried again with that one. Pins NLC-98.
func TestAPassComesWhenAGracePeriodEnds(t *testing.T) {
	c := newCluster(config{period: 5 * time.Second, grace: 50 * time.Second}, func(string) *coordinationv1.Lease { return nil })
	c.sight.begin(at)
	c.show(node("node"), at)
	pass := func(now time.Time) {
		c.findSilent(now, func() {})
		c.hasPassed(now)
	}
	for _, step := range []struct {
		after time.Duration
		due   bool
	}{
		{0, true}, // the first one
		{time.Second, false},
		{5 * time.Second, true},
		{47 * time.Second, true},
		{49 * time.Second, false},
		{50 * time.Second, false}, // not over yet
		{50*time.Second + time.Millisecond, true},
		{51 * time.Second, false}, // nothing could be done about it
		{56 * time.Second, true},
	} {
		now := at.Add(step.after)
		if got := c.isDue(now); got != step.due {
			t.Errorf("after %v a pass is due: %t", step.after, got)
		}
		if step.due {
			pass(now)
		}
	}
}

// withoutLeases returns a world with the nodes n and m, whose Leases have not been shown for the grace period. Only m
// has reported its status meanwhile.
func withoutLeases(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, settings, node("n"), node("m"))
	w.live(t, 10*time.Second)
	for range 9 {
		w.Env.Clock.Step(w.period)
		w.report(t, "m")
		w.work(t)
	}
	w.Env.Clock.Step(w.period)
	return w
}

// After a break of their watch, Leases are shown all at once, in no order. Pins NLC-84.
func TestARenewalWhoseEventHasNotComeCounts(t *testing.T) {
	w := withoutLeases(t)
	w.Cache(t, lease("n", "2", w.Env.Clock.Now()), lease("m", "3", w.Env.Clock.Now()))
	w.renew("m")
	w.work(t)
	w.wantReady(t, "n", corev1.ConditionTrue)
	w.fall("n")
	w.live(t, 45*time.Second)
	w.wantReady(t, "n", corev1.ConditionTrue)
	w.live(t, 10*time.Second)
	w.wantReady(t, "n", corev1.ConditionUnknown)
}

// A watch that was behind shows the oldest renewals first. Pins NLC-106.
func TestTheFirstRenewalAfterABreakMayBeOld(t *testing.T) {
	w := withoutLeases(t)
	w.Env.Store(t, lease("n", "2", w.Env.Clock.Now().Add(-time.Second)))
	w.renewed(reconcile.Fresh, lease("m", "", w.Env.Clock.Now().Add(-40*time.Second)))
	w.work(t)
	w.wantReady(t, "n", corev1.ConditionTrue)
}

// A watch that cannot keep up shows what all nodes have renewed, ever later. Pins NLC-106.
func TestAWatchThatFallsBehindShowsNoSilence(t *testing.T) {
	w := newWorld(t, settings, group("n", 7)...)
	w.live(t, 20*time.Second)
	began := w.Env.Clock.Now()
	for i := range 40 { // the events of a second take five to come
		w.Env.Clock.Step(w.period)
		for _, n := range controllertest.AllStored[*corev1.Node](t, w.Env, "") {
			w.Env.Store(t, lease(n.Name, fmt.Sprint(100+i), w.Env.Clock.Now()))
		}
		if i%2 == 0 {
			w.renewed(reconcile.Fresh, lease(fmt.Sprintf("n%02d", i/2%7), fmt.Sprint(50+i), began.Add(time.Duration(i)*time.Second)))
		}
		w.work(t)
	}
	for i := range 7 {
		w.wantReady(t, fmt.Sprintf("n%02d", i), corev1.ConditionTrue)
	}
	w.fall("n00")
	w.live(t, 110*time.Second) // its last renewal is not shown, and counts from when it is read
	w.wantReady(t, "n00", corev1.ConditionUnknown)
}

// The API server is down for less than an interruption, and no kubelet has had an opportunity to renew when it
// answers again. Pins NLC-107.
func TestAnOutageIsNoSilence(t *testing.T) {
	cfg := settings
	cfg.grace = 20 * time.Second
	w := newWorld(t, cfg, node("a"), node("b"), node("c"))
	w.work(t)
	w.Env.Clock.Step(time.Second)
	w.renew("a")
	w.Env.Clock.Step(8 * time.Second)
	w.renew("b")
	w.Env.Clock.Step(time.Second)
	w.renew("c")
	w.passAt(t, 10*time.Second)
	allow := w.Refuse("get nodes", errors.New("connection refused"))
	w.passAt(t, 16*time.Second)
	w.passAt(t, 21500*time.Millisecond)
	allow()
	w.Requests()
	w.passAt(t, 25*time.Second)
	if requests := w.Requests(); len(requests) != 1 || !strings.HasPrefix(requests[0], "get nodes ") {
		t.Errorf("sent %q, want one read", requests)
	}
	for _, name := range []string{"a", "b", "c"} {
		w.wantReady(t, name, corev1.ConditionTrue)
	}
	w.passAt(t, 40*time.Second)
	w.passAt(t, 46*time.Second)
	w.wantReady(t, "a", corev1.ConditionUnknown)
}

// Pins NLC-107.
func TestAReadThatIsCutOffIsNoOutage(t *testing.T) {
	w := newWorld(t, settings, node("n"))
	w.live(t, 5*time.Second)
	w.Env.Clock.Step(20 * time.Second)
	ctx, end := context.WithCancel(w.Context())
	w.Intercept("get nodes n", func(clienttesting.Action) error {
		end()
		return context.Canceled
	})
	w.pass(ctx, ctx)
	if ctx.Err() == nil || !w.cluster.sight.failed.IsZero() {
		t.Errorf("the read was cut off: %v, and failed at %v", ctx.Err(), w.cluster.sight.failed)
	}
}

// All nodes are cut off, and there are so many that a pass takes long. Pins NLC-84.
func TestAPassThatTakesLongIsNoInterruption(t *testing.T) {
	w := newWorld(t, settings, node("n"), node("m"))
	w.live(t, 5*time.Second)
	w.fall("n", "m")
	w.live(t, 15*time.Second)
	w.renew("m")
	conflict := apierrors.NewConflict(nodesResource, "n", errors.New("it has changed"))
	w.RefuseIf("update nodes/status n", conflict, func(n int) bool {
		w.Env.Clock.Step(15 * time.Second)
		return n == 1
	})
	w.live(t, 40*time.Second)
	w.wantReady(t, "n", corev1.ConditionUnknown)
	w.wantReady(t, "m", corev1.ConditionTrue)
	w.work(t)
	w.wantReady(t, "m", corev1.ConditionUnknown)
}
