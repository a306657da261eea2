package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

const full = "CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range"

// What nodes get, beside what others hold.
func TestWhatANodeGets(t *testing.T) {
	services := single
	services.services = [2]string{"10.0.0.0/24", "fd00::/112"}
	for name, tc := range map[string]struct {
		config config
		others []*corev1.Node
		want   string
	}{
		"IPAM-18: the first block":                    {single, nil, "[10.0.0.0/24]"},
		"IPAM-12, IPAM-18: IPv4 and IPv6":             {dual, nil, "[10.0.0.0/24 fd00::/64]"},
		"IPAM-12: IPv6 and IPv4":                      {config{clusters: [2]clusterRange{dual.clusters[1], dual.clusters[0]}}, nil, "[fd00::/64 10.0.0.0/24]"},
		"IPAM-8, IPAM-16: Service ranges are skipped": {services, nil, "[10.0.1.0/24]"},
		"IPAM-16: a Service range that is larger":     {config{clusters: single.clusters, services: [2]string{"10.0.0.0/16"}}, nil, "failed to allocate cidr from cluster cidr at idx:0: " + full},
		"IPAM-16: no overlap of families":             {config{clusters: dual.clusters, services: [2]string{"fd00::/64"}}, nil, "[10.0.0.0/24 fd00:0:0:1::/64]"},
		"IPAM-16, IPAM-17: what nodes have is used":   {single, []*corev1.Node{node("a", "10.0.0.0/24"), node("b", "10.0.2.0/24")}, "[10.0.1.0/24]"},
		"IPAM-16: counted once": {
			services, []*corev1.Node{node("a", "10.0.0.0/24"), node("b", "10.0.1.0/24"), node("c", "10.0.2.0/24")}, "[10.0.3.0/24]",
		},
		"IPAM-30: of nodes being deleted, too":   {single, []*corev1.Node{terminating(node("a", "10.0.0.0/24"))}, "[10.0.1.0/24]"},
		"IPAM-17: a node with one family of two": {dual, []*corev1.Node{node("a", "10.0.0.0/24")}, "[10.0.1.0/24 fd00::/64]"},
		"IPAM-38, IPAM-40: a node outside, and in the other order": {
			dual, []*corev1.Node{node("a", "192.168.0.0/24"), node("b", "fd00::/64", "10.0.0.0/24"), node("c", "hello", "10.0.1.0/24")}, "[10.0.2.0/24 fd00:0:0:1::/64]",
		},
		"IPAM-35: nodes of other sizes": {single, []*corev1.Node{node("a", "10.0.0.0/23"), node("b", "10.0.2.7/32")}, "[10.0.3.0/24]"},
		"IPAM-18: no block is left": {
			single, []*corev1.Node{node("a", "10.0.0.0/22")}, "failed to allocate cidr from cluster cidr at idx:0: " + full,
		},
		"IPAM-27: no block is left of the second range": {
			dual, []*corev1.Node{node("a", "fd00::/63")}, "failed to allocate cidr from cluster cidr at idx:1: " + full,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.config, append(tc.others, node("new"))...)
			wantCIDRs(t, w.allot(t, "new"), tc.want)
		})
	}
}

func TestReconcileLeavesAlone(t *testing.T) {
	for name, node := range map[string]*corev1.Node{
		"IPAM-17: a node with podCIDRs":               node("n", "10.0.0.0/24"),
		"IPAM-17: a node with one podCIDR of two":     node("n", "10.0.0.0/24"),
		"IPAM-17, IPAM-30: a node being deleted":      terminating(node("n")),
		"IPAM-32, IPAM-40: a node with another range": node("n", "192.168.0.0/24"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, dual, node)
			if err := w.reconcile(w.Context(), "n"); err != nil {
				t.Error(err)
			}
			w.WantRequests(t)
			w.WantEvents(t)
			if err := w.reconcile(w.Context(), "unknown"); err != nil {
				t.Error(err)
			}
			w.WantRequests(t)
		})
	}
}

// Pins IPAM-14, IPAM-37 and IPAM-45.
func TestANodeCostsOnePatch(t *testing.T) {
	w := newWorld(t, dual, node("n"))
	w.allot(t, "n")
	writes := w.Writes()
	if len(writes) != 1 {
		t.Fatalf("sent %v", w.Requests())
	}
	patch := writes[0].(clienttesting.PatchActionImpl)
	want := `{"metadata":{"uid":"n-1"},"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24","fd00::/64"]}}`
	if string(patch.Patch) != want || patch.PatchType != types.StrategicMergePatchType || patch.Subresource != "" {
		t.Errorf("patch is %s, want %s", patch.Patch, want)
	}
	w.WantRequests(t, "patch nodes n")
	w.WantEvents(t)
}

// Pins IPAM-29.
func TestACacheThatIsBehindCausesNoSecondChoice(t *testing.T) {
	w := newWorld(t, single, node("n"), node("other"))
	wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
	w.Fake.ClearActions()
	heartbeat := node("n")
	heartbeat.ResourceVersion = "2"
	w.Queue(t)
	w.show(t, node("n"), heartbeat)
	w.queued.Want(t)
	wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
	w.WantRequests(t)
	wantCIDRs(t, w.allot(t, "other"), "[10.0.1.0/24]")
	w.Fake.ClearActions()

	// A cache that does not show a write after five minutes is of a cluster that was restored.
	w.Env.Clock.Step(6 * time.Minute)
	controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) { n.Spec = corev1.NodeSpec{} })
	w.show(t, node("n"), heartbeat)
	w.queued.Want(t, "n")
	wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
	w.WantRequests(t, "patch nodes n")

	// So is one that shows the node without what it has shown before.
	w.show(t, heartbeat, node("n", "10.0.0.0/24"))
	w.Env.Clock.Step(time.Second)
	controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) { n.Spec = corev1.NodeSpec{} })
	w.Fake.ClearActions()
	w.show(t, node("n", "10.0.0.0/24"), heartbeat)
	w.queued.Want(t, "n")
	wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
	w.WantRequests(t, "patch nodes n")
	w.show(t, heartbeat, heartbeat)
	w.queued.Want(t)
}

// A node that has lost its podCIDRs keeps what it held, whatever becomes of the next write. Pins IPAM-42.
func TestARangeThatANodeHasLostIsNotGivenToOthers(t *testing.T) {
	had := node("n", "10.0.0.0/24")
	w := newWorld(t, single, node("a", "10.0.2.0/23"), node("b", "10.0.1.0/24"), had, node("next"))
	w.show(t, had, node("n"))
	w.Refuse("patch nodes n", refused(403))
	w.allot(t, "n")
	wantCIDRs(t, w.allot(t, "next"), "failed to allocate cidr from cluster cidr at idx:0: "+full)
}

func refused(code int) error {
	err := apierrors.NewGenericServerResponse(code, "patch", schema.GroupResource{Resource: "nodes"}, "n", "refused", 0, false)
	return err
}

// What was written, and is not shown for long, stays held when the same is written again and refused. Pins IPAM-19.
func TestARangeThatWasWrittenIsNotGivenToOthersWhenTheNextWriteIsRefused(t *testing.T) {
	w := newWorld(t, single, node("a", "10.0.2.0/23"), node("b", "10.0.1.0/24"), node("n"), node("next"))
	wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
	w.Env.Clock.Step(6 * time.Minute)
	controllertest.Change(t, w.Env, "", "n", func(n *corev1.Node) { n.Spec = corev1.NodeSpec{} })
	w.Refuse("patch nodes n", refused(403))
	w.allot(t, "n")
	wantCIDRs(t, w.allot(t, "next"), "failed to allocate cidr from cluster cidr at idx:0: "+full)
}

func TestAWriteFails(t *testing.T) {
	const failed = "Normal CIDRAssignmentFailed Node n status is now: CIDRAssignmentFailed"
	for name, tc := range map[string]struct {
		err    error
		tries  int
		events []string
		next   string // what another node gets
	}{
		"IPAM-19, IPAM-26: refused":     {refused(422), 3, []string{failed}, "[10.0.1.0/24]"},
		"IPAM-19, IPAM-26: forbidden":   {refused(403), 3, []string{failed}, "[10.0.1.0/24]"},
		"IPAM-42: it is gone":           {refused(404), 1, nil, "[10.0.1.0/24]"},
		"IPAM-19: nobody knows":         {refused(504), 3, []string{failed}, "[10.0.1.0/24]"},
		"IPAM-19: the server fails":     {refused(500), 3, []string{failed}, "[10.0.1.0/24]"},
		"IPAM-19: the connection fails": {errors.New("connection reset by peer"), 3, []string{failed}, "[10.0.1.0/24]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, single, node("n"), node("next"))
			allow := w.Refuse("patch nodes n", tc.err)
			err := w.reconcile(w.Context(), "n")
			if (err == nil) != (tc.events == nil) || err != nil && !errors.Is(err, tc.err) {
				t.Errorf("reconcile returns %v", err)
			}
			w.WantRequests(t, slices.Repeat([]string{"patch nodes n"}, tc.tries)...)
			w.WantEvents(t, tc.events...)
			wantCIDRs(t, w.allot(t, "next"), tc.next)
			allow()
		})
	}
}

// The instance ends while it writes. Pins IPAM-49.
func TestAWriteIsCutOff(t *testing.T) {
	w := newWorld(t, single, node("a", "10.0.2.0/23"), node("b", "10.0.1.0/24"), node("n"), node("next"))
	ctx, end := context.WithCancel(w.Context())
	w.Intercept("patch nodes n", func(clienttesting.Action) error {
		end()
		return context.Canceled
	})
	if err := w.reconcile(ctx, "n"); !errors.Is(err, context.Canceled) {
		t.Errorf("reconcile returns %v", err)
	}
	w.WantEvents(t)
	wantCIDRs(t, w.allot(t, "next"), "failed to allocate cidr from cluster cidr at idx:0: "+full)
}

// An admission webhook says that a node is gone, which is there, and no event of it follows. Pins IPAM-42.
func TestANodeThatIsSaidToBeGoneIsTriedAgain(t *testing.T) {
	w := newWorld(t, single, node("n"), node("next"))
	w.Queue(t)
	allow := w.Refuse("patch nodes n", refused(404))
	wantCIDRs(t, w.allot(t, "n"), "[]")
	w.queued.Want(t, "n in 10s")
	wantCIDRs(t, w.allot(t, "next"), "[10.0.1.0/24]")
	allow()
	wantCIDRs(t, w.allot(t, "n"), "[10.0.2.0/24]")
}

// Either a namesake has come, which the cache will show, or others change the node. Pins IPAM-42.
func TestAConflictIsTriedAgain(t *testing.T) {
	w := newWorld(t, single, node("n"), node("next"))
	allow := w.Refuse("patch nodes n", refused(409))
	if err := w.reconcile(w.Context(), "n"); !reconcile.IsExpected(err) {
		t.Errorf("reconcile returns %v, want a requeue", err)
	}
	w.WantRequests(t, "patch nodes n")
	w.WantEvents(t)
	wantCIDRs(t, w.allot(t, "next"), "[10.0.1.0/24]")
	allow()
	wantCIDRs(t, w.allot(t, "n"), "[10.0.2.0/24]")
}

// Pins IPAM-19 and IPAM-31.
func TestARangeOfAWriteWithUnknownOutcomeIsNotGivenToOthers(t *testing.T) {
	const held = "failed to allocate cidr from cluster cidr at idx:0: " + full
	lost := errors.New("unexpected EOF")
	for name, tc := range map[string]struct {
		errs []error // of one reconciliation after another
		want string
	}{
		"IPAM-19: refused":                               {[]error{refused(422)}, "[10.0.0.0/24]"},
		"IPAM-19: nobody knows":                          {[]error{refused(504)}, held},
		"IPAM-19: nobody answers":                        {[]error{lost}, held},
		"IPAM-19: nobody answers, then refused":          {[]error{lost, refused(403)}, held},
		"IPAM-19: nobody answers, then too often":        {[]error{lost, refused(429), refused(401)}, held},
		"IPAM-42: nobody answers, then others change it": {[]error{lost, refused(409)}, held},
		"IPAM-42: nobody answers, then it is gone":       {[]error{lost, refused(404)}, held},
		"IPAM-42: others change it, then refused":        {[]error{refused(409), refused(422)}, "[10.0.0.0/24]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, single, node("a", "10.0.2.0/23"), node("b", "10.0.1.0/24"), node("n"), node("next"))
			allow := func() {}
			for _, err := range tc.errs {
				allow()
				allow = w.Refuse("patch nodes n", err)
				w.allot(t, "n")
			}
			wantCIDRs(t, w.allot(t, "next"), tc.want)
			allow()
			if tc.want == held {
				wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
			}
		})
	}
}

// Pins IPAM-18, IPAM-24, IPAM-27 and IPAM-43.
func TestExhaustionAndARangeThatIsFreed(t *testing.T) {
	const notAvailable = "Normal CIDRNotAvailable Node %s status is now: CIDRNotAvailable"
	w := newWorld(t, dual, node("a", "10.0.0.0/24", "fd00::/64"), node("b", "10.0.1.0/24", "fd00:0:0:1::/64"), node("first"), node("second"))
	w.Queue(t)
	for _, name := range []string{"first", "first", "second"} {
		wantCIDRs(t, w.allot(t, name), "failed to allocate cidr from cluster cidr at idx:1: "+full)
	}
	w.WantRequests(t)
	w.WantEvents(t, fmt.Sprintf(notAvailable, "first"), fmt.Sprintf(notAvailable, "first"), fmt.Sprintf(notAvailable, "second"))
	if used := w.ranges.sets[0].used; used != 2 {
		t.Errorf("%d blocks of the first range are held, want 2: those of nodes that wait have leaked", used)
	}
	w.show(t, node("first"), node("first")) // a heartbeat
	w.queued.Want(t)

	w.vanish(t, node("a", "10.0.0.0/24", "fd00::/64"))
	w.queued.Want(t, "first", "second") // a block of each range is free
	wantCIDRs(t, w.allot(t, "first"), "[10.0.0.0/24 fd00::/64]")
	wantCIDRs(t, w.allot(t, "second"), "failed to allocate cidr from cluster cidr at idx:1: "+full)
	w.vanish(t, node("second"))
	w.vanish(t, node("b"))
	w.queued.Want(t)
}

// Pins IPAM-43.
func TestAFreedRangeIsPassedOnByANodeThatIsBeingDeleted(t *testing.T) {
	w := newWorld(t, single, node("a", "10.0.0.0/24"), node("b", "10.0.1.0/24"), node("c", "10.0.2.0/23"), node("first"), node("second"))
	w.Queue(t)
	w.allot(t, "first")
	w.allot(t, "second")
	w.show(t, node("first"), terminating(node("first")))
	w.vanish(t, node("a"))
	w.queued.Want(t, "first")
	w.allot(t, "first")
	w.queued.Want(t, "second")
	wantCIDRs(t, w.allot(t, "second"), "[10.0.0.0/24]")
	w.allot(t, "first")
	w.queued.Want(t)
}

// Pins IPAM-43.
func TestAFreedRangeIsPassedOnByANodeThatGotAnother(t *testing.T) {
	w := newWorld(t, single, node("a", "10.0.0.0/24"), node("b", "10.0.1.0/24"), node("c", "10.0.2.0/23"), node("first"), node("second"))
	w.Queue(t)
	w.allot(t, "first")
	w.allot(t, "second")
	w.vanish(t, node("a"))
	w.queued.Want(t, "first")
	w.show(t, node("first"), node("first", "10.0.1.0/24"))
	w.allot(t, "first")
	w.queued.Want(t, "second")
	wantCIDRs(t, w.allot(t, "second"), "[10.0.0.0/24]")
}

// Pins IPAM-13, IPAM-20 and IPAM-30.
func TestARangeIsFreedByTheEndOfItsNode(t *testing.T) {
	held := node("a", "10.0.0.0/22")
	for name, tc := range map[string]struct {
		happens func(t *testing.T, w *world)
		want    string
	}{
		"IPAM-30: its deletion begins":                          {func(t *testing.T, w *world) { w.show(t, held, terminating(held.DeepCopy())) }, "idx:0"},
		"IPAM-13: it is updated":                                {func(t *testing.T, w *world) { w.show(t, held, held.DeepCopy()) }, "idx:0"},
		"IPAM-20: it is deleted":                                {func(t *testing.T, w *world) { w.vanish(t, held) }, ""},
		"IPAM-31: it is deleted, and its last state is unknown": {func(t *testing.T, w *world) { w.vanish(t, node("a")) }, ""},
		"IPAM-31: it is recreated unseen":                       {func(t *testing.T, w *world) { w.show(t, held, again(held)) }, ""},
		"IPAM-31: a namesake is deleted":                        {func(t *testing.T, w *world) { w.ranges.gone(incarnation{"a", "another"}) }, "idx:0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, single, held, node("new"))
			tc.happens(t, w)
			_, err := w.ranges.choose(incarnation{"new", "new-1"}, at)
			if (err == nil) != (tc.want == "") {
				t.Errorf("got %v, want an error about %q", err, tc.want)
			}
		})
	}
}

// A list after a break of the watch lacks a node, which may exist. Pins IPAM-51.
func TestANodeThatAListLacksKeepsItsRange(t *testing.T) {
	const none = "failed to allocate cidr from cluster cidr at idx:0: " + full
	held := node("n", "10.0.0.0/22")
	begin := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, single, held, node("next"))
		w.Queue(t)
		w.lack(t, held)
		w.queued.Want(t, "n")
		wantCIDRs(t, w.allot(t, "next"), none)
		w.Fake.ClearActions()
		return w
	}
	check := func(t *testing.T, w *world) {
		t.Helper()
		if err := w.reconcile(w.Context(), "n"); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("it exists, and is shown again", func(t *testing.T) {
		w := begin(t)
		check(t, w)
		w.WantRequests(t, "get nodes n")
		w.queued.Want(t, "n in 10s")
		w.show(t, nil, held)
		if used := w.ranges.sets[0].used; used != 4 {
			t.Errorf("%d blocks are held, want 4", used)
		}
		check(t, w)
		w.WantRequests(t)
		w.queued.Want(t)
		w.vanish(t, held)
		w.queued.Want(t, "next")
		wantCIDRs(t, w.allot(t, "next"), "[10.0.0.0/24]")
	})
	t.Run("it was deleted", func(t *testing.T) {
		w := begin(t)
		w.Env.Remove(t, held)
		check(t, w)
		w.WantRequests(t, "get nodes n")
		w.queued.Want(t, "next")
		wantCIDRs(t, w.allot(t, "next"), "[10.0.0.0/24]")
	})
	t.Run("it is deleted later, without an event", func(t *testing.T) {
		w := begin(t)
		check(t, w)
		w.queued.Want(t, "n in 10s")
		w.Env.Remove(t, held)
		check(t, w)
		w.queued.Want(t, "next")
	})
	t.Run("another has its name", func(t *testing.T) {
		w := begin(t)
		w.Env.Store(t, again(held))
		check(t, w)
		w.queued.Want(t, "next")
	})
	t.Run("nobody knows whether it exists", func(t *testing.T) {
		w := begin(t)
		w.Refuse("get nodes n", refused(500))
		if err := w.reconcile(w.Context(), "n"); err == nil {
			t.Error("no error")
		}
		wantCIDRs(t, w.allot(t, "next"), none)
	})
	t.Run("a successor does not see it either", func(t *testing.T) {
		w := begin(t)
		w.succeed(t, single, node("next"))
		wantCIDRs(t, w.allot(t, "next"), none)
	})
}

// A node that waits for a range, and that a list lacks, does not keep it from others. Pins IPAM-51.
func TestANodeThatAListLacksPassesItsTurnOn(t *testing.T) {
	a, first, second := node("a", "10.0.0.0/22"), node("first"), node("second")
	w := newWorld(t, single, a, first, second)
	w.Queue(t)
	w.allot(t, "first")
	w.allot(t, "second")
	w.lack(t, first)
	w.queued.Want(t, "first")
	w.allot(t, "first")
	w.vanish(t, a)
	w.queued.Want(t, "second")
}

// A node was replaced by one that was created with the same range, and both are seen as one update. Pins IPAM-47.
func TestARangeThatANamesakeHasIsNeverFree(t *testing.T) {
	first := node("n", "10.0.3.0/24")
	second := again(first)
	second.Spec = first.Spec
	w := newWorld(t, single, node("a", "10.0.0.0/23"), node("b", "10.0.2.0/24"), first, node("next"))
	w.Queue(t)
	wantCIDRs(t, w.allot(t, "next"), "failed to allocate cidr from cluster cidr at idx:0: "+full)
	w.show(t, first, second)
	w.queued.Want(t)
	w.vanish(t, first)
	w.queued.Want(t)
	w.vanish(t, second)
	w.queued.Want(t, "next")
	wantCIDRs(t, w.allot(t, "next"), "[10.0.3.0/24]")
}

// A node that waits is replaced by one that waits. Pins IPAM-43.
func TestANamesakeOfANodeThatWaitsIsQueued(t *testing.T) {
	w := newWorld(t, single, node("a", "10.0.0.0/22"), node("n"))
	w.Queue(t)
	w.allot(t, "n")
	w.show(t, node("n"), again(node("n")))
	w.queued.Want(t, "n")
}

// Pins IPAM-32 and IPAM-33.
func TestAnotherAllocatorWasFaster(t *testing.T) {
	w := newWorld(t, single, node("n"), node("other"))
	w.Refuse("patch nodes n", refused(504))
	w.allot(t, "n")
	w.show(t, node("n"), node("n", "10.0.3.0/24"))
	if used := w.ranges.sets[0].used; used != 1 {
		t.Errorf("%d blocks are held, want that of the other allocator", used)
	}
	w.ranges.sets[0].next = 3
	wantCIDRs(t, w.allot(t, "other"), "[10.0.0.0/24]")
}

// Pins IPAM-41.
func TestTwoNodesWithOneRange(t *testing.T) {
	w := newWorld(t, config{clusters: [2]clusterRange{{"10.0.0.0/24", 24}}}, node("a", "10.0.0.0/25"), node("b", "10.0.0.0/24"), node("new"))
	w.vanish(t, node("a"))
	wantCIDRs(t, w.allot(t, "new"), "failed to allocate cidr from cluster cidr at idx:0: "+full)
	w.vanish(t, node("b"))
	wantCIDRs(t, w.allot(t, "new"), "[10.0.0.0/24]")
}

func TestANodeIsRecreatedUnderItsName(t *testing.T) {
	t.Run("IPAM-36: after its range was written", func(t *testing.T) {
		w := newWorld(t, single, node("n"), node("other"))
		w.allot(t, "n")
		first, second := node("n", "10.0.0.0/24"), again(node("n"))
		w.Env.Store(t, second)
		w.show(t, first, second)
		wantCIDRs(t, w.allot(t, "n"), "[10.0.1.0/24]")
		wantCIDRs(t, w.allot(t, "other"), "[10.0.2.0/24]")
	})
	t.Run("IPAM-36: the handlers are behind the cache", func(t *testing.T) {
		w := newWorld(t, single, node("n"), node("other"))
		w.allot(t, "n")
		second := again(node("n"))
		w.Env.Store(t, second)
		w.Cache(t, second)
		w.Fake.ClearActions()
		wantCIDRs(t, w.allot(t, "n"), "[10.0.1.0/24]")
		w.WantRequests(t, "get nodes n", "patch nodes n")
		w.ranges.gone(incarnationOf(node("n"))) // the event comes
		wantCIDRs(t, w.allot(t, "other"), "[10.0.2.0/24]")
		if used := w.ranges.sets[0].used; used != 2 {
			t.Errorf("%d blocks are held, want 2", used)
		}
	})
	t.Run("IPAM-20: it goes while its key is reconciled", func(t *testing.T) {
		second := node("n", "10.0.0.0/24")
		w := newWorld(t, single, second)
		if _, err := w.ranges.choose(incarnation{"n", "first"}, at); err != nil { // no event told of its end
			t.Fatal(err)
		}
		w.Intercept("get nodes n", func(clienttesting.Action) error {
			w.vanish(t, second)
			return nil
		})
		w.allot(t, "n")
		if used := w.ranges.sets[0].used; used != 0 {
			t.Errorf("%d blocks are held, want none", used)
		}
	})
	t.Run("IPAM-42: before its range was written", func(t *testing.T) {
		w := newWorld(t, single, node("n"), node("other"))
		w.Refuse("patch nodes n", refused(409)) // the UID is that of the first
		if err := w.reconcile(w.Context(), "n"); !reconcile.IsExpected(err) {
			t.Errorf("reconcile returns %v, want a requeue", err)
		}
		w.WantRequests(t, "patch nodes n")
		w.WantEvents(t)
		if used := w.ranges.sets[0].used; used != 0 {
			t.Errorf("%d blocks are held, want none", used)
		}
	})
}
