package nodelifecycle

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

// Pins NLC-91.
func TestASuccessorContinues(t *testing.T) {
	t.Run("a countdown", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("other"), pod("p", "n"))
		w.work(t)
		w.fall("n")
		w.live(t, 40*time.Second)
		w.RecordedEvents()
		w.succeed(t, settings, w.HandOver())
		w.live(t, 10*time.Second)
		w.wantReady(t, "n", corev1.ConditionTrue)
		w.live(t, 5*time.Second)
		w.wantReady(t, "n", corev1.ConditionUnknown)
		w.WantEvents(t, "Normal NodeNotReady Node n status is now: NodeNotReady", "Warning NodeNotReady Node is not ready")
	})
	t.Run("a countdown that ends while there is no instance", func(t *testing.T) {
		slow := settings
		slow.period, slow.grace = time.Minute, 150*time.Second
		w := newWorld(t, slow, node("n"), node("other"))
		w.fall("n")
		w.live(t, 2*time.Minute)
		left := w.HandOver()
		w.Env.Clock.Step(40 * time.Second)
		w.succeed(t, slow, left)
		w.renew("other")
		w.passIfDue(w.Context(), w.Context())
		w.wantReady(t, "n", corev1.ConditionUnknown)
	})
	t.Run("but not of a node that was seen meanwhile", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("other"))
		w.work(t)
		w.fall("n")
		w.live(t, 40*time.Second)
		left := w.HandOver()
		controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) {
			conditionOf(n, corev1.NodeReady).LastHeartbeatTime.Time = at.Add(39 * time.Second)
		})
		w.succeed(t, settings, left)
		w.live(t, 45*time.Second)
		w.wantReady(t, "n", corev1.ConditionTrue)
	})
	t.Run("nor of one that has renewed its Lease meanwhile", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("other"))
		w.work(t)
		w.fall("n")
		w.live(t, 40*time.Second)
		w.Succeed(w.HandOver())
		w.build(t, settings, node("n"), node("other"))
		renewed := lease("n", "", w.Env.Clock.Now())
		w.Env.Store(t, renewed)
		w.Cache(t, renewed)
		w.start(t)
		w.live(t, 45*time.Second)
		w.wantReady(t, "n", corev1.ConditionTrue)
	})
	t.Run("nor when nobody was there for a while", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("other"))
		w.work(t)
		w.fall("n")
		w.live(t, 40*time.Second)
		left := w.HandOver()
		w.Env.Clock.Step(time.Minute)
		w.succeed(t, settings, left)
		w.live(t, 50*time.Second)
		w.wantReady(t, "n", corev1.ConditionTrue)
		w.live(t, 10*time.Second)
		w.wantReady(t, "n", corev1.ConditionUnknown)
	})
	t.Run("nor of another node of the name", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("other"))
		w.work(t)
		w.fall("n")
		w.live(t, 40*time.Second)
		w.RecordedEvents()
		left := w.HandOver()
		w.Env.Store(t, node("n", func(n *corev1.Node) { n.UID = "n-2" }))
		w.succeed(t, settings, left)
		w.live(t, 15*time.Second)
		w.wantReady(t, "n", corev1.ConditionTrue)
		w.WantEvents(t, "Normal RemovingNode Node n event: Removing Node n from Controller", "Normal RegisteredNode Node n event: Registered Node n in Controller")
	})
	t.Run("queues and rates", func(t *testing.T) {
		w := newWorld(t, settings, append(group("a", 4, ready(corev1.ConditionUnknown)), group("b", 6)...)...)
		w.work(t)
		w.wantEvicted(t, "a00")
		w.live(t, 5*time.Second)
		w.succeed(t, settings, w.HandOver())
		w.work(t)
		w.wantEvicted(t, "a00")
		w.live(t, 5*time.Second)
		w.wantEvicted(t, "a00 a01")
	})
	t.Run("queues in their order", func(t *testing.T) {
		w := newWorld(t, settings, append(group("a", 4, ready(corev1.ConditionFalse)), group("b", 6)...)...)
		w.work(t)
		w.fall(namesOf(group("a", 4))...)
		w.Env.Clock.Step(time.Second)
		w.renew("a01") // by which it would be last, if it came to the queue now
		w.succeed(t, settings, w.HandOver())
		w.live(t, 10*time.Second)
		w.wantEvicted(t, "a00 a01")
	})
	t.Run("queues, in which another node of the name is the last", func(t *testing.T) {
		w := newWorld(t, settings, append(group("a", 3, ready(corev1.ConditionFalse)), group("b", 6)...)...)
		w.work(t)
		w.fall(namesOf(group("a", 3))...)
		w.Env.Clock.Step(time.Second)
		left := w.HandOver()
		w.Env.Store(t, node("a01", ready(corev1.ConditionFalse), func(n *corev1.Node) { n.UID = "a01-2" }))
		w.succeed(t, settings, left)
		w.live(t, 10*time.Second)
		w.wantEvicted(t, "a00 a02")
	})
	t.Run("with another rate", func(t *testing.T) {
		w := newWorld(t, settings, append(group("a", 4, ready(corev1.ConditionUnknown)), group("b", 6)...)...)
		w.work(t)
		faster := settings
		faster.rates.normal = 1
		w.succeed(t, faster, w.HandOver())
		w.live(t, 15*time.Second)
		w.wantEvicted(t, "a00 a01 a02 a03")
	})
	t.Run("while all zones are down", func(t *testing.T) {
		w := newWorld(t, settings, group("a", 4, ready(corev1.ConditionUnknown))...)
		w.work(t)
		w.succeed(t, settings, w.HandOver())
		w.live(t, time.Minute)
		w.wantEvicted(t, "")
	})
	t.Run("a taint that was granted and not written", func(t *testing.T) {
		w := newWorld(t, settings, append(group("a", 1, ready(corev1.ConditionUnknown)), group("b", 6)...)...)
		w.pass(w.Context(), w.Context())
		w.grant()
		w.succeed(t, settings, w.HandOver())
		if w.nodeLoop.Inspect().Depth != 1 {
			t.Error("the node is not queued")
		}
		w.work(t)
		w.wantEvicted(t, "a00")
	})
	t.Run("but not a taint that was granted when nobody was there for a while", func(t *testing.T) {
		w := newWorld(t, settings, append(group("a", 1, ready(corev1.ConditionUnknown)), group("b", 6)...)...)
		w.pass(w.Context(), w.Context())
		w.grant()
		left := w.HandOver()
		w.Env.Clock.Step(time.Minute)
		w.succeed(t, settings, left)
		reconciled(t, w, "a00")
		w.wantEvicted(t, "")
		w.work(t)
		w.wantEvicted(t, "a00")
	})
	for name, tc := range map[string]struct {
		later   time.Duration
		between corev1.ConditionStatus
		want    string
	}{
		"taints that were stripped and not removed":                              {0, corev1.ConditionUnknown, ""},
		"taints that were stripped, when nobody was there and all is down":       {time.Minute, corev1.ConditionUnknown, ""},
		"but not taints that were stripped, when nobody was there and one is up": {time.Minute, corev1.ConditionTrue, "a00"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, settings, append(group("a", 1, ready(corev1.ConditionUnknown)), group("b", 1)...)...)
			w.work(t)
			w.wantEvicted(t, "a00")
			w.report(t, "b00", ready(corev1.ConditionUnknown))
			w.pass(w.Context(), w.Context())
			left := w.HandOver()
			w.Env.Clock.Step(tc.later)
			controllertest.Change(t, w.Env, "", "b00", ready(tc.between))
			w.succeed(t, settings, left)
			reconciled(t, w, "a00")
			w.wantEvicted(t, tc.want)
		})
	}
	t.Run("pods that are not marked yet", func(t *testing.T) {
		w := newWorld(t, settings, node("n"), node("other"), pod("p", "n"))
		w.Refuse("patch pods/status p", errors.New("boom"))
		w.cluster.mark(w.cluster.nodes["n"])
		w.report(t, "n", ready(corev1.ConditionUnknown))
		w.succeed(t, settings, w.HandOver())
		if w.markLoop.Inspect().Depth != 1 || w.cluster.toMark("n") == 0 {
			t.Error("the pods are not to be marked")
		}
	})
	t.Run("what it did not announce", func(t *testing.T) {
		w := newWorld(t, settings, node("n"))
		w.work(t)
		w.RecordedEvents()
		w.cluster.delete(node("n"))
		w.Env.Remove(t, node("n"))
		w.succeed(t, settings, w.HandOver())
		w.work(t)
		w.WantEvents(t, "Normal RemovingNode Node n event: Removing Node n from Controller")
	})
}

// Another process may have had the lease in between, and have ended before it marked pods, or the list that filled the
// cache of the predecessor lacked a pod. Pins NLC-113.
func TestPodsOfNodesThatAreSilentWhenAnInstanceBegins(t *testing.T) {
	fell := func(n *corev1.Node) { n.Status.Conditions = unknownConditions(n, at.Add(time.Minute)) }
	beat := func(n *corev1.Node) {
		conditionOf(n, corev1.NodeReady).LastHeartbeatTime.Time = at.Add(30 * time.Second)
	}
	for name, tc := range map[string]struct {
		before, between func(*corev1.Node)
		marked          bool
	}{
		"it was ready":                          {func(*corev1.Node) {}, fell, true},
		"it was not ready":                      {ready(corev1.ConditionFalse), fell, true},
		"it was silent before":                  {fell, func(*corev1.Node) {}, true},
		"it was silent before, and between":     {fell, beat, true},
		"it is another node of the name":        {fell, func(n *corev1.Node) { n.UID = "n-2" }, true},
		"it is ready":                           {fell, ready(corev1.ConditionTrue), false},
		"its kubelet says that it is not ready": {func(*corev1.Node) {}, ready(corev1.ConditionFalse), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, settings, node("n", tc.before), pod("p", "n"))
			if err := w.markPodsOf(w.Context(), "n"); err != nil {
				t.Fatal(err)
			}
			left := w.HandOver()
			w.Env.Store(t, pod("p", "n"))
			w.Cache(t, pod("p", "n"))
			controllertest.Change(t, w.Env, "", "n", tc.between)
			w.Requests()
			w.succeed(t, settings, left)
			if depth := w.markLoop.Inspect().Depth; (depth == 1) != tc.marked {
				t.Errorf("%d nodes are queued", depth)
			}
			if err := w.markPodsOf(w.Context(), "n"); err != nil {
				t.Fatal(err)
			}
			if tc.marked {
				w.WantRequests(t, "patch pods/status p")
			} else {
				w.WantRequests(t)
			}
		})
	}
}

// reconciled has the taints of a node changed, without a pass before.
func reconciled(t *testing.T, w *world, name string) {
	t.Helper()
	if err := w.reconcileNode(w.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// An instance has shown a node as silent, and ends before its cache shows that. Pins NLC-109.
func TestASuccessorKnowsWhatWasWritten(t *testing.T) {
	cached := node("n", func(n *corev1.Node) { n.ResourceVersion = "5" })
	silent := node("n", func(n *corev1.Node) {
		n.ResourceVersion = "7"
		conditionOf(n, corev1.NodeReady).Status = corev1.ConditionUnknown
	})
	for name, tc := range map[string]struct {
		cached *corev1.Node // by the successor
		later  time.Duration
		want   corev1.ConditionStatus
		marks  bool
	}{
		"the cache is behind":           {cached, time.Second, corev1.ConditionUnknown, true},
		"it shows the write":            {silent, time.Second, corev1.ConditionUnknown, true},
		"it shows a later state":        {controllertest.Changed(cached.DeepCopy(), func(n *corev1.Node) { n.ResourceVersion = "8" }), time.Second, corev1.ConditionTrue, false},
		"it shows another node":         {controllertest.Changed(cached.DeepCopy(), func(n *corev1.Node) { n.UID = "n-2" }), time.Second, corev1.ConditionTrue, false},
		"it is behind for five minutes": {cached, writes.Timeout, corev1.ConditionTrue, false},
	} {
		t.Run(name, func(t *testing.T) {
			without := func(string) *coordinationv1.Lease { return nil }
			before := newCluster(settings, without)
			before.show(cached, at)
			before.wrote(silent.DeepCopy(), at)
			if _, ok := before.confirmedUnknown("n"); !ok {
				t.Fatal("it is not shown as silent")
			}
			c := newCluster(settings, without)
			c.show(tc.cached, at.Add(tc.later))
			c.begin(before.handOver(), true, at.Add(tc.later))
			if got, _ := c.newest("n"); conditionOf(got, corev1.NodeReady).Status != tc.want {
				t.Errorf("ready is %s, want %s", conditionOf(got, corev1.NodeReady).Status, tc.want)
			}
			if order := c.toMark("n"); (order != 0) != tc.marks {
				t.Errorf("the order to mark its pods is %d", order)
			}
			if name != "the cache is behind" {
				return
			}
			c.show(cached, at.Add(tc.later))
			if got, _ := c.newest("n"); got.ResourceVersion != "7" {
				t.Errorf("an older state counts: %s", got.ResourceVersion)
			}
		})
	}
}

// Pins NLC-84, NLC-88 and NLC-91. Nothing was handed over: the process is new, or another had
// the lease.
func TestAnInstanceWithoutAPredecessor(t *testing.T) {
	evicted := []func(*corev1.Node){ready(corev1.ConditionUnknown), tainted(noSchedule(corev1.TaintNodeUnreachable), evicting(corev1.TaintNodeUnreachable))}
	objects := []runtime.Object{node("gone", evicted...), node("back", tainted(evicting(corev1.TaintNodeUnreachable))), node("n"), node("m"), pod("p", "gone")}
	w := newWorld(t, settings, objects...)
	w.Env.Clock.Step(time.Hour)
	w = restarted(t, w)
	w.work(t)
	w.WantRequestsInAnyOrder(t, "patch nodes back", "patch pods/status p") // it may not have come to marking the pod
	if got := w.RecordedEvents(); len(got) != 5 {
		t.Errorf("events are %q", got)
	}
	w.fall("n")
	w.live(t, 50*time.Second)
	w.WantRequests(t)
	w.live(t, 5*time.Second)
	w.wantReady(t, "n", corev1.ConditionUnknown)
	if got := w.stored(t, "gone").Spec.Taints; got[1].TimeAdded != nil {
		t.Errorf("a taint was added again: %+v", got)
	}
}

// The Lease that was there before is no heartbeat, in whichever order the caches are filled. Pins NLC-84.
func TestALeaseThatIsShownAfterItsNode(t *testing.T) {
	w := newWorld(t, settings, node("n"))
	w.Succeed(nil)
	w.build(t, settings, node("n"))
	last := lease("n", "1", at.Add(-time.Hour))
	w.Env.Store(t, last)
	w.Cache(t, last)
	w.start(t)
	w.fall("n")
	w.live(t, 50*time.Second)
	w.wantReady(t, "n", corev1.ConditionTrue)
	w.live(t, 5*time.Second)
	w.wantReady(t, "n", corev1.ConditionUnknown)
}

func restarted(t *testing.T, w *world) *world {
	t.Helper()
	w.succeed(t, settings, nil)
	return w
}

// Pins NLC-91 and NLC-106.
func TestASuccessorKnowsHowFastRenewalsAreShown(t *testing.T) {
	w := newWorld(t, settings, node("n"))
	w.live(t, 20*time.Second)
	w.succeed(t, settings, w.HandOver())
	for _, late := range []time.Duration{0, 8 * time.Second} {
		w.Env.Clock.Step(10 * time.Second)
		now := w.Env.Clock.Now()
		w.renewed(reconcile.Fresh, lease("n", "", now.Add(-late)))
		if is := w.cluster.sight.leases; !is.Equal(now.Add(-late)) {
			t.Errorf("a renewal is late by %v, and Leases are known as of %v", late, now.Sub(is))
		}
	}
}
