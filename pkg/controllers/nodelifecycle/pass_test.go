package nodelifecycle

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/controllertest"
)

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

// Pins NLC-98.
func TestNoPassIsMadeThatIsNotDue(t *testing.T) {
	w := newWorld(t, settings, node("n"))
	w.passIfDue(w.Context(), w.Context())
	w.RecordedEvents()
	w.show(t, node("m"))
	w.Env.Clock.Step(w.period - time.Second)
	w.passIfDue(w.Context(), w.Context())
	w.WantEvents(t)
	w.Env.Clock.Step(time.Second)
	w.passIfDue(w.Context(), w.Context())
	w.WantEvents(t, "Normal RegisteredNode Node m event: Registered Node m in Controller")
}

// The deletion is shown after the node that came next under the name.
func TestTheDeletionOfAnEarlierNodeOfTheName(t *testing.T) {
	w := newWorld(t, settings, node("n", func(n *corev1.Node) { n.UID = "n-2" }))
	w.cluster.delete(node("n"))
	if newest, _ := w.cluster.newest("n"); newest == nil {
		t.Error("the node is forgotten")
	}
}
