package nodeipam

import (
	"fmt"
	"testing"

	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

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
