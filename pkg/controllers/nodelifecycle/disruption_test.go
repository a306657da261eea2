package nodelifecycle

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// countEvicted returns how many nodes have taints that evict pods.
func (w *world) countEvicted(t testing.TB) int {
	t.Helper()
	return len(strings.Fields(w.evicted(t)))
}

// TestZonesThatAreDisrupted has nodes of zones fall silent at once, after a minute. Each has 20
// nodes, and a large one has 60.
func TestZonesThatAreDisrupted(t *testing.T) {
	for name, tc := range map[string]struct {
		zones map[string]int // nodes
		fall  map[string]int // how many of them fall silent
		want  []int          // nodes with taints a minute, two, three, … after they fall silent
	}{
		"NLC-9, NLC-61: a few nodes, one in ten seconds": {map[string]int{"a": 20, "b": 20}, map[string]int{"a": 8}, []int{2, 8, 8}},
		"NLC-60, NLC-61: most of a small zone":           {map[string]int{"a": 20, "b": 20}, map[string]int{"a": 12}, []int{0, 0, 0}},
		"NLC-10, NLC-61: most of a large zone":           {map[string]int{"a": 60, "b": 20}, map[string]int{"a": 40}, []int{1, 1, 2}},
		"NLC-61: a whole zone":                           {map[string]int{"a": 20, "b": 20}, map[string]int{"a": 20}, []int{2, 8, 14}},
		"NLC-64: all zones":                              {map[string]int{"a": 20, "b": 20}, map[string]int{"a": 20, "b": 20}, []int{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			for zone, nodes := range tc.zones {
				objects = append(objects, group(zone, nodes)...)
			}
			w := newWorld(t, settings, objects...)
			w.live(t, time.Minute)
			for zone, nodes := range tc.fall {
				w.fall(namesOf(group(zone, nodes))...)
			}
			for minute, want := range tc.want {
				w.live(t, time.Minute)
				if got := w.countEvicted(t); got != want {
					t.Errorf("%d nodes have taints after %d minutes, want %d", got, minute+1, want)
				}
			}
		})
	}
}

// Pins NLC-40, NLC-62, NLC-64, NLC-65, NLC-66 and NLC-68.
func TestAllZonesFallAndOneComesBack(t *testing.T) {
	objects := append(group("a", 4), group("b", 4)...)
	w := newWorld(t, settings, objects...)
	w.live(t, time.Minute)
	w.wantSeries(t, "node_collector_zone_size", "a 4", "b 4")
	w.wantSeries(t, "node_collector_zone_health", "a 100", "b 100")
	w.fall("a00", "a01")
	w.live(t, 90*time.Second)
	w.wantEvicted(t, "a00 a01")
	w.wantSeries(t, "node_collector_zone_health", "a 50", "b 100")
	w.wantSeries(t, "node_collector_unhealthy_nodes_in_zone", "a 2", "b 0")

	w.fall(namesOf(objects)...)
	w.live(t, time.Minute)
	w.wantEvicted(t, "")
	w.wantSeries(t, "node_collector_zone_health", "a 0", "b 0")
	w.live(t, 5*time.Minute)
	w.wantEvicted(t, "")

	back := namesOf(group("b", 3))
	for _, name := range back {
		delete(w.silent, name)
		w.report(t, name, ready(corev1.ConditionTrue))
	}
	w.live(t, 5*time.Second)
	w.wantEvicted(t, "")
	w.live(t, time.Minute)
	// Zone a is down alone, and goes at the usual rate; the last of zone b, at once.
	if got := w.evicted(t); !strings.HasPrefix(got, "a00 a01 ") || !strings.HasSuffix(got, " b03") && got != "a00 a01 a02 a03 b03" {
		t.Errorf("%q have taints", got)
	}
	w.wantSeries(t, "node_collector_evictions_total", "a 6", "b 1")
}

// What is known of a node when all zones go down may be behind. Pins NLC-64 and NLC-104.
func TestTaintsAreStrippedWhateverIsKnownOfThem(t *testing.T) {
	fall := func(t *testing.T, w *world) {
		t.Helper()
		w.report(t, "b00", ready(corev1.ConditionUnknown))
		w.pass(w.Context(), w.Context())
	}
	down := []func(*corev1.Node){ready(corev1.ConditionUnknown), tainted(noSchedule(corev1.TaintNodeUnreachable))}
	lost := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, settings, append(group("a", 1, down...), group("b", 1)...)...)
		w.pass(w.Context(), w.Context())
		w.grant()
		w.RefuseIf("patch nodes a00", errors.New("unexpected EOF"), func(n int) bool {
			if n == 1 {
				controllertest.Change(t, w.Env, "", "a00", tainted(evicting(corev1.TaintNodeUnreachable)))
			}
			return n == 1
		})
		if err := w.reconcileNode(w.Context(), "a00"); err == nil {
			t.Error("no error")
		}
		w.wantEvicted(t, "a00")
		fall(t, w)
		return w
	}
	t.Run("the answer to tainting a node was lost", func(t *testing.T) {
		w := lost(t)
		w.Requests()
		reconciled(t, w, "a00")
		w.WantRequests(t, "get nodes a00", "patch nodes a00")
		w.wantEvicted(t, "")
	})
	t.Run("and it cannot be read", func(t *testing.T) {
		w := lost(t)
		allow := w.Refuse("get nodes a00", errors.New("boom"))
		if err := w.reconcileNode(w.Context(), "a00"); !reconcile.IsRequeue(err) {
			t.Errorf("got %v", err)
		}
		allow()
		reconciled(t, w, "a00")
		w.wantEvicted(t, "")
	})
	t.Run("the node moves to another zone", func(t *testing.T) {
		w := newWorld(t, settings, append(group("a", 1, down...), group("b", 1)...)...)
		w.work(t)
		w.wantEvicted(t, "a00")
		fall(t, w)
		w.report(t, "a00", inZone("b"))
		w.work(t)
		w.wantEvicted(t, "")
	})
}

// A list lacks a node that evicts its pods when all zones go down, or before the taint is removed. Pins NLC-112.
func TestAllZonesAreDownAndATaintedNodeComes(t *testing.T) {
	down := []func(*corev1.Node){
		ready(corev1.ConditionUnknown),
		tainted(noSchedule(corev1.TaintNodeUnreachable), evicting(corev1.TaintNodeUnreachable)),
	}
	for name, tc := range map[string]struct {
		others []runtime.Object
		later  []runtime.Object
		queued []string
		want   string
	}{
		"no node is ready":              {group("b", 2, ready(corev1.ConditionUnknown)), nil, []string{"b02"}, ""},
		"others are ready":              {group("b", 2), nil, nil, "b02"},
		"only one of a zone":            {append(group("b", 1), group("c", 1, ready(corev1.ConditionUnknown))...), nil, nil, "b02"},
		"the list goes on with others":  {nil, group("b", 2), nil, "b02"},
		"others have come that do, too": {group("b", 2, ready(corev1.ConditionUnknown)), group("c", 2), nil, "b02"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, settings, tc.others...)
			w.pass(w.Context(), w.Context())
			came := group("b", 3, down...)[2].(*corev1.Node)
			w.Env.Store(t, came)
			w.show(t, came)
			for _, other := range tc.later {
				w.show(t, other.(*corev1.Node))
			}
			w.wantTaints(t, "b02", tc.queued, tc.want)
		})
	}
}

// wantTaints fails the test unless a pass queues these nodes, and these evict their pods after one is reconciled.
func (w *world) wantTaints(t *testing.T, node string, queued []string, evicted string) {
	t.Helper()
	queue := &controllertest.Queue[string]{}
	w.nodeQueue = queue
	w.pass(w.Context(), w.Context())
	queue.Want(t, queued...)
	reconciled(t, w, node)
	w.wantEvicted(t, evicted)
}

// All zones went down while a list lacked a node that evicts its pods. Pins NLC-115.
func TestAllZonesAreDownAndASuccessorFindsATaintedNode(t *testing.T) {
	came := func() *corev1.Node {
		return group("b", 3, ready(corev1.ConditionUnknown),
			tainted(noSchedule(corev1.TaintNodeUnreachable), evicting(corev1.TaintNodeUnreachable)))[2].(*corev1.Node)
	}
	for name, tc := range map[string]struct {
		others []runtime.Object
		before bool // whether it came in the time of the predecessor, after its last pass
		queued []string
		want   string
	}{
		"no node is ready":                  {group("b", 2, ready(corev1.ConditionUnknown)), false, []string{"b02"}, ""},
		"no node is ready, and it had come": {group("b", 2, ready(corev1.ConditionUnknown)), true, []string{"b02"}, ""},
		"others are ready":                  {group("b", 2), false, nil, "b02"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, settings, tc.others...)
			w.pass(w.Context(), w.Context())
			w.Env.Store(t, came())
			if tc.before {
				w.show(t, came())
			}
			w.succeed(t, settings, w.HandOver())
			w.wantTaints(t, "b02", tc.queued, tc.want)
		})
	}
}

// Pins NLC-105. While all are down, a node joins that is ready, in a zone that there was not.
func TestAllZonesAreDownAndAnotherComes(t *testing.T) {
	objects := group("a", 4, ready(corev1.ConditionUnknown))
	w := newWorld(t, settings, objects...)
	w.fall(namesOf(objects)...)
	w.live(t, 5*time.Minute)
	w.wantEvicted(t, "")
	joined := node("b00", inZone("b"))
	w.Env.Store(t, joined)
	w.show(t, joined)
	w.live(t, time.Minute)
	w.wantEvicted(t, "a00 a01 a02 a03")
}

// Pins NLC-108. While a zone is down, all others go: their nodes are deleted, or do not count any more.
func TestAZoneIsDownAndTheOthersGo(t *testing.T) {
	for name, remove := range map[string]func(*testing.T, *world, *corev1.Node){
		"deleted": func(t *testing.T, w *world, n *corev1.Node) {
			t.Helper()
			w.cluster.delete(n)
			w.Env.Remove(t, n)
		},
		"excluded": func(t *testing.T, w *world, n *corev1.Node) {
			t.Helper()
			w.report(t, n.Name, excluded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, settings, append(group("a", 4, ready(corev1.ConditionUnknown)), group("b", 2)...)...)
			w.fall(namesOf(group("a", 4))...)
			w.live(t, 15*time.Second)
			w.wantEvicted(t, "a00 a01")
			for _, n := range []string{"b00", "b01"} {
				remove(t, w, w.stored(t, n))
			}
			w.live(t, time.Minute)
			w.wantEvicted(t, "")
		})
	}
}

// Pins NLC-65. Who is known as ready when the first node comes back, gets a new grace period.
func TestTheFirstThatComesBackGivesAllANewGracePeriod(t *testing.T) {
	w := newWorld(t, settings, node("n", ready(corev1.ConditionFalse)), node("m", ready(corev1.ConditionFalse)))
	w.work(t)
	w.fall("n", "m")
	w.live(t, 45*time.Second)
	w.report(t, "m", ready(corev1.ConditionTrue))
	w.live(t, 50*time.Second)
	w.wantReady(t, "n", corev1.ConditionFalse)
	w.live(t, 10*time.Second)
	w.wantReady(t, "n", corev1.ConditionUnknown)
}

func (w *world) wantSeries(t testing.TB, metric string, want ...string) {
	t.Helper()
	var all []string
	for _, series := range want {
		zone, value, _ := strings.Cut(series, " ")
		all = append(all, "zone="+zoneNamed(zone)+" "+value)
	}
	got := w.Series(t, metric)
	slices.Sort(got)
	if !slices.Equal(got, all) {
		t.Errorf("%s is %q, want %q", metric, got, all)
	}
}

// A kubelet may set the labels that say in which zone its node is, and so name any number of zones. Pins NLC-118.
func TestTheSeriesOfAZoneEndWithItsLastNode(t *testing.T) {
	w := newWorld(t, settings, group("a", 3)...)
	w.work(t)
	for _, zone := range []string{"b", "c", "d"} {
		w.report(t, "a00", inZone(zone))
		w.work(t)
	}
	w.wantSeries(t, "node_collector_zone_size", "a 2", "d 1")
	w.wantSeries(t, "node_collector_zone_health", "a 100", "d 100")
	w.wantSeries(t, "node_collector_unhealthy_nodes_in_zone", "a 0", "d 0")
	w.wantSeries(t, "node_collector_evictions_total", "a 0", "d 0")
}

// A node that goes while it gets its taint counts in its zone, too. Pins NLC-58.
func TestANodeGoesWhileItIsTainted(t *testing.T) {
	w := newWorld(t, settings, node("n", ready(corev1.ConditionUnknown)), node("m"))
	w.pass(w.Context(), w.Context())
	w.grant()
	w.Intercept("patch nodes n", func(clienttesting.Action) error {
		w.cluster.delete(node("n"))
		return nil
	})
	reconciled(t, w, "n")
	w.wantSeries(t, "node_collector_evictions_total", "a 1")
}

// Pins NLC-38, NLC-77 and NLC-89.
func TestNodesThatDoNotCount(t *testing.T) {
	down := ready(corev1.ConditionUnknown)
	t.Run("in a zone of none that count", func(t *testing.T) {
		w := newWorld(t, settings, group("a", 4, excluded, down)...)
		w.live(t, 5*time.Second)
		w.wantEvicted(t, "a00")
		w.live(t, 25*time.Second)
		w.wantEvicted(t, "a00 a01 a02")
		w.wantSeries(t, "node_collector_zone_size", "a 0")
		w.wantSeries(t, "node_collector_zone_health", "a 100")
	})
	t.Run("beside the only one that is ready", func(t *testing.T) {
		w := newWorld(t, settings, append(group("a", 1, excluded), group("b", 2, down)...)...)
		w.live(t, time.Minute)
		w.wantEvicted(t, "")
	})
	t.Run("a node alone", func(t *testing.T) {
		w := newWorld(t, settings, node("n", down))
		w.live(t, time.Minute)
		w.wantEvicted(t, "")
	})
}

func TestTheQueueOfAZone(t *testing.T) {
	down := ready(corev1.ConditionUnknown)
	start := func(t *testing.T) *world {
		t.Helper()
		objects := append(group("a", 4, down), node("b00", inZone("b")))
		for _, name := range []string{"x0", "x1", "x2", "x3", "x4", "x5"} {
			objects = append(objects, node(name, inZone("a")))
		}
		w := newWorld(t, settings, objects...)
		w.fall(namesOf(group("a", 4))...)
		w.work(t)
		w.wantEvicted(t, "a00")
		return w
	}
	t.Run("NLC-26, NLC-56, NLC-92: in order, each once", func(t *testing.T) {
		w := start(t)
		for _, want := range []string{"a00 a01", "a00 a01 a02", "a00 a01 a02 a03"} {
			w.live(t, 10*time.Second)
			w.wantEvicted(t, want)
		}
		w.live(t, time.Minute)
		w.wantSeries(t, "node_collector_evictions_total", "a 4", "b 0")
	})
	t.Run("NLC-54, NLC-56: one that is ready again leaves it", func(t *testing.T) {
		w := start(t)
		w.report(t, "a01", ready(corev1.ConditionTrue))
		delete(w.silent, "a01")
		w.live(t, 10*time.Second)
		w.wantEvicted(t, "a00 a02")
	})
	t.Run("NLC-55: one that is ready for a while is last", func(t *testing.T) {
		w := start(t)
		w.report(t, "a01", ready(corev1.ConditionTrue))
		w.work(t)
		w.report(t, "a01", ready(corev1.ConditionFalse))
		w.live(t, 20*time.Second)
		w.wantEvicted(t, "a00 a02 a03")
	})
	t.Run("NLC-55: one that loses its taint is last", func(t *testing.T) {
		w := start(t)
		controllertest.Change(t, w.Env, "", "a00", func(n *corev1.Node) { n.Spec.Taints = nil })
		w.show(t, w.stored(t, "a00"))
		w.live(t, 35*time.Second)
		w.wantEvicted(t, "a01 a02 a03")
		w.live(t, 10*time.Second)
		w.wantEvicted(t, "a00 a01 a02 a03")
	})
	t.Run("NLC-58: one that is gone costs nothing", func(t *testing.T) {
		w := start(t)
		n := w.stored(t, "a01")
		w.cluster.delete(n)
		w.Env.Remove(t, n)
		w.live(t, 10*time.Second)
		w.wantEvicted(t, "a00 a02")
	})
	t.Run("NLC-58: one that is ready when it is its turn", func(t *testing.T) {
		w := start(t)
		w.report(t, "a01", ready(corev1.ConditionTrue))
		w.Env.Clock.Step(10 * time.Second)
		if got := w.cluster.grant(w.Env.Clock.Now()); len(got) != 0 {
			t.Errorf("granted %q", got)
		}
	})
	t.Run("NLC-58, NLC-92: one that moves to another zone", func(t *testing.T) {
		w := start(t)
		w.report(t, "a01", inZone("b"))
		w.work(t)
		w.wantEvicted(t, "a00 a01")
		w.wantSeries(t, "node_collector_evictions_total", "a 1", "b 1")
	})
}

// Pins NLC-88.
func TestANodeThatIsTaintedByOthersLeavesTheQueue(t *testing.T) {
	w := newWorld(t, settings, append(group("a", 3, ready(corev1.ConditionFalse)), group("b", 6)...)...)
	w.work(t)
	w.fall(namesOf(group("a", 3))...)
	controllertest.Change(t, w.Env, "", "a01", tainted(evicting(corev1.TaintNodeNotReady)))
	w.show(t, w.stored(t, "a01"))
	w.live(t, 10*time.Second)
	w.wantEvicted(t, "a00 a01 a02")
}
