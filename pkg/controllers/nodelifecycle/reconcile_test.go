package nodelifecycle

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// fallSilent has the controller know that the node n, which is ready, is shown as silent, and its pods to be marked.
func fallSilent(t *testing.T, w *world) {
	t.Helper()
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
	t.Run("NLC-117: a silent node that is ready again before all of its pods are marked", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), pod("p", "n"), pod("q", "n"), pod("r", "n"))
		fallSilent(t, w)
		back := controllertest.Changed(w.stored(t, "n"), ready(corev1.ConditionTrue))
		back.ResourceVersion = "1000000"
		w.Requests()
		w.Intercept("patch pods/status", func(clienttesting.Action) error {
			w.cluster.show(back, at)
			return nil
		})
		if err := w.markPodsOf(w.Context(), "n"); err != nil {
			t.Error(err)
		}
		w.WantRequests(t, "patch pods/status")
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
				c := must.Get(newController(env.Env, settings))(t)
				env.Start(t)
				env.Run(t, c)
				controllertest.Eventually(t, "the patch is refused", func() bool {
					newest, _ := c.cluster.newest("n")
					return c.nodeLoop.Inspect().Reconciled == 1 && (newest == nil) == isGone
				})
				env.Requests()
				env.Clock.Step(reconcile.RecheckAfter - time.Second)
				env.AwaitIdle(t)
				if n := c.nodeLoop.Inspect().Reconciled; n != 1 {
					t.Errorf("it is looked at %d times before its time", n)
				}
				env.Clock.Step(time.Second)
				controllertest.Eventually(t, "the node is looked at again", func() bool { return c.nodeLoop.Inspect().Reconciled > 1 })
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

// The write of a process that has ended is executed late: nobody else marks the pods. Pins NLC-116.
func TestPodsOfANodeThatAnotherProcessShowsAsSilentAreMarked(t *testing.T) {
	for name, tc := range map[string]struct {
		was    corev1.ConditionStatus
		change func(*corev1.Node)
		events []string
	}{
		"it was ready": {corev1.ConditionTrue, func(*corev1.Node) {}, []string{
			"Normal NodeNotReady Node n status is now: NodeNotReady", "Warning NodeNotReady Node is not ready",
		}},
		"it was ready, and its last heartbeat was not shown": {corev1.ConditionTrue, func(n *corev1.Node) {
			conditionOf(n, corev1.NodeReady).LastHeartbeatTime.Time = at.Add(30 * time.Second)
		}, []string{"Normal NodeNotReady Node n status is now: NodeNotReady", "Warning NodeNotReady Node is not ready"}},
		"NLC-39e: its kubelet said that it was not ready": {corev1.ConditionFalse, func(*corev1.Node) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, settings, node("n", ready(tc.was)), pod("p", "n"))
			w.RecordedEvents()
			w.show(t, node("n", ready(corev1.ConditionUnknown), tc.change))
			if err := w.markPodsOf(w.Context(), "n"); err != nil {
				t.Fatal(err)
			}
			w.WantEvents(t, tc.events...)
		})
	}
}

// A list after a break of the watch lacks a silent node before all of its pods are marked. Pins NLC-110.
func TestASilentNodeThatAListLackedHasItsPodsMarked(t *testing.T) {
	for name, tc := range map[string]struct {
		back *corev1.Node
		want []string
	}{
		"it is still silent":                    {node("n", ready(corev1.ConditionUnknown)), []string{"patch pods/status p"}},
		"it reports":                            {node("n"), nil},
		"its kubelet says that it is not ready": {node("n", ready(corev1.ConditionFalse)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			silent := node("n", ready(corev1.ConditionUnknown))
			w := newWorld(t, settings, node("n"), pod("p", "n"))
			w.show(t, silent)
			if depth := w.markLoop.Inspect().Depth; depth != 1 {
				t.Fatalf("%d nodes are queued when it falls silent", depth)
			}
			w.cluster.delete(silent)
			if err := w.markPodsOf(w.Context(), "n"); err != nil {
				t.Fatal(err)
			}
			w.WantRequests(t)
			marks := &controllertest.Queue[string]{}
			w.markQueue = marks
			w.show(t, tc.back)
			if tc.want != nil {
				marks.Want(t, "n")
			} else {
				marks.Want(t)
			}
			if err := w.markPodsOf(w.Context(), "n"); err != nil {
				t.Fatal(err)
			}
			w.WantRequests(t, tc.want...)
		})
	}
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
