package nodeipam

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/controllertest"
)

// Pins IPAM-34, IPAM-36 and IPAM-39.
func TestASuccessorGivesNothingTwice(t *testing.T) {
	for name, tc := range map[string]struct {
		// before is what becomes of node n; its range is written or not.
		err error
		// between is what the successor sees besides.
		between func(t *testing.T, w *world)
		config  config
		other   string // what another node gets
		n       string // what n gets
	}{
		"written, not shown": {
			config: single, other: "[10.0.1.0/24]", n: "[10.0.0.0/24]",
		},
		"written, and shown to the successor": {
			between: func(t *testing.T, w *world) { w.show(t, nil, node("n", "10.0.0.0/24")) },
			config:  single, other: "[10.0.1.0/24]", n: "[10.0.0.0/24]",
		},
		"nobody knows whether it was written": {
			err: errors.New("unexpected EOF"), config: single, other: "[10.0.1.0/24]", n: "[10.0.0.0/24]",
		},
		"refused": {
			err: refused(422), config: single, other: "[10.0.1.0/24]", n: "[10.0.2.0/24]",
		},
		"another process has given it to another node in between": {
			err: errors.New("unexpected EOF"),
			between: func(t *testing.T, w *world) {
				w.Env.Store(t, node("x", "10.0.0.0/24"))
				w.show(t, nil, node("x", "10.0.0.0/24"))
			},
			config: single, other: "[10.0.1.0/24]", n: "[10.0.2.0/24]",
		},
		"nobody knows whether it was written, and the ranges of the cluster have changed": {
			err:    errors.New("unexpected EOF"),
			config: config{clusters: [2]clusterRange{{"10.0.0.0/22", 25}}}, other: "[10.0.1.0/25]", n: "[10.0.1.128/25]",
		},
		"written, and the ranges of the cluster have changed": {
			config: config{clusters: [2]clusterRange{{"10.0.0.0/22", 25}}}, other: "[10.0.1.0/25]", n: "[10.0.0.0/24]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, single, node("n"), node("other"))
			allow := func() {}
			if tc.err != nil {
				allow = w.Refuse("patch nodes n", tc.err)
			}
			w.allot(t, "n")
			allow()

			w.Succeed(w.HandOver())
			w.build(t, tc.config)
			w.show(t, nil, node("n"))
			w.show(t, nil, node("other"))
			if tc.between != nil {
				tc.between(t, w)
			}
			w.takeOver()
			wantCIDRs(t, w.allot(t, "other"), tc.other)
			wantCIDRs(t, w.allot(t, "n"), tc.n)
		})
	}
}

// Pins IPAM-36.
func TestASuccessorInAnotherProcessLearnsFromItsCaches(t *testing.T) {
	w := newWorld(t, dual, node("n"), node("other"))
	w.allot(t, "n")
	w.Succeed(nil)
	w.build(t, dual)
	// Its caches contain the writes of the predecessor: see controller.Scope.
	w.show(t, nil, controllertest.MustStored[*corev1.Node](t, w.Env, "", "n"))
	w.show(t, nil, node("other"))
	w.takeOver()
	wantCIDRs(t, w.allot(t, "other"), "[10.0.1.0/24 fd00:0:0:1::/64]")
}

func TestNodesThatWereHandedOver(t *testing.T) {
	t.Run("IPAM-39: one that does not exist is forgotten after a live read", func(t *testing.T) {
		w := newWorld(t, single, node("n"), node("other"))
		w.allot(t, "n")
		w.Uncache(t, node("n"))
		w.succeed(t, single, node("other"))
		w.Queue(t)
		w.Fake.ClearActions()
		if err := w.reconcile(w.Context(), "n"); err != nil {
			t.Fatal(err)
		}
		w.WantRequests(t, "get nodes n")
		if used := w.ranges.sets[0].used; used != 1 {
			t.Errorf("%d blocks are held while the node exists, want 1", used)
		}
		w.queued.Want(t, "n in 10s") // it may be gone before the cache shows it, and there is no event then
		w.Env.Remove(t, node("n"))
		if err := w.reconcile(w.Context(), "n"); err != nil {
			t.Fatal(err)
		}
		if used := w.ranges.sets[0].used; used != 0 {
			t.Errorf("%d blocks are held, want none", used)
		}
		w.queued.Want(t)
	})
	t.Run("IPAM-52: one that the cache has shown, and a list lacked since", func(t *testing.T) {
		w := newWorld(t, single, node("n"))
		w.allot(t, "n")
		w.show(t, node("n"), node("n", "10.0.0.0/24"))
		w.Uncache(t, node("n")) // which the handlers are not told any more
		w.succeed(t, single)
		if err := w.reconcile(w.Context(), "n"); err != nil || w.ranges.sets[0].used != 1 {
			t.Errorf("%d blocks are held while the node exists, want 1; %v", w.ranges.sets[0].used, err)
		}
		w.Env.Remove(t, node("n"))
		if err := w.reconcile(w.Context(), "n"); err != nil || w.ranges.sets[0].used != 0 {
			t.Errorf("%d blocks are held, want none; %v", w.ranges.sets[0].used, err)
		}
	})
	t.Run("IPAM-39: a live read that fails frees nothing", func(t *testing.T) {
		w := newWorld(t, single, node("n"), node("other"))
		w.allot(t, "n")
		w.Uncache(t, node("n"))
		w.succeed(t, single, node("other"))
		w.Refuse("get nodes n", refused(500))
		if err := w.reconcile(w.Context(), "n"); err == nil {
			t.Error("no error")
		}
		wantCIDRs(t, w.allot(t, "other"), "[10.0.1.0/24]")
	})
	t.Run("IPAM-36: blocks are freed last, also by a successor", func(t *testing.T) {
		w := newWorld(t, single, node("n"), node("other"))
		w.allot(t, "n")
		w.vanish(t, node("n"))
		w.succeed(t, single, node("other"))
		wantCIDRs(t, w.allot(t, "other"), "[10.0.1.0/24]")
	})
	t.Run("IPAM-36: other ranges begin at their beginning", func(t *testing.T) {
		w := newWorld(t, single, node("n"), node("other"))
		w.allot(t, "n")
		w.vanish(t, node("n"))
		w.succeed(t, config{clusters: [2]clusterRange{{"10.0.0.0/22", 26}}}, node("other"))
		wantCIDRs(t, w.allot(t, "other"), "[10.0.0.0/26]")
	})
	t.Run("IPAM-29: a write that is awaited is awaited by the successor", func(t *testing.T) {
		w := newWorld(t, single, node("n"))
		w.allot(t, "n")
		w.succeed(t, single, node("n"))
		w.Fake.ClearActions()
		w.allot(t, "n")
		w.WantRequests(t)
		w.Env.Clock.Step(6 * time.Minute)
		w.allot(t, "n")
		w.WantRequests(t, "patch nodes n")
	})
}

// What may have been written to a node stays held although it is not what the node would get of the new ranges. Pins
// IPAM-48.
func TestARangeThatMayHaveBeenWrittenIsHeldAfterAnEdit(t *testing.T) {
	smaller := config{clusters: [2]clusterRange{{"10.0.0.0/22", 25}}}
	const held = "failed to allocate cidr from cluster cidr at idx:0: " + full
	lost := errors.New("unexpected EOF")
	b, n, next := node("b", "10.0.1.0/24"), node("n"), node("next")
	begin := func(t *testing.T, a *corev1.Node, edited config) *world {
		t.Helper()
		w := newWorld(t, single, a, b, n, next)
		allow := w.Refuse("patch nodes n", lost)
		w.allot(t, "n")
		allow()
		w.succeed(t, edited, a, b, n, next)
		return w
	}
	for name, edited := range map[string]config{"a second range": dual, "smaller blocks": smaller} {
		t.Run("executed, "+name, func(t *testing.T) {
			w := begin(t, node("a", "10.0.2.0/23"), edited)
			allow := w.Refuse("patch nodes n", refused(422))
			w.allot(t, "n")
			wantCIDRs(t, w.allot(t, "next"), held)
			allow()
			executed := node("n", "10.0.0.0/24")
			w.show(t, n, executed)
			wantCIDRs(t, w.allot(t, "next"), held)
			w.vanish(t, executed)
			if blocks := w.allot(t, "next"); !strings.HasPrefix(blocks, "[10.0.0.") {
				t.Errorf("podCIDRs are %s", blocks)
			}
		})
	}
	t.Run("not executed, a second range", func(t *testing.T) {
		w := begin(t, node("a", "10.0.2.0/23"), dual)
		wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24 fd00::/64]")
		wantCIDRs(t, w.allot(t, "next"), held)
	})
	t.Run("not executed, smaller blocks", func(t *testing.T) {
		w := begin(t, node("a", "10.0.2.0/24"), smaller)
		wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/25]")
		if used := w.ranges.sets[0].used; used != 5 {
			t.Errorf("%d blocks are held, want 5", used)
		}
	})
	t.Run("not executed, smaller blocks, which are seen", func(t *testing.T) {
		w := begin(t, node("a", "10.0.2.0/24"), smaller)
		allow := w.Refuse("patch nodes n", lost)
		w.allot(t, "n")
		allow()
		w.show(t, n, node("n", "10.0.0.0/25"))
		if used := w.ranges.sets[0].used; used != 5 {
			t.Errorf("%d blocks are held, want 5", used)
		}
	})
	t.Run("not executed, smaller blocks, and no other is left", func(t *testing.T) {
		w := begin(t, node("a", "10.0.2.0/23"), smaller)
		wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/25]")
		wantCIDRs(t, w.allot(t, "next"), "[10.0.0.128/25]")
		wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/25]")
	})
	t.Run("smaller blocks, of which one is reserved", func(t *testing.T) {
		reserved := smaller
		reserved.services[0] = "10.0.0.0/25"
		w := begin(t, node("a", "10.0.2.0/23"), reserved)
		wantCIDRs(t, w.allot(t, "next"), held)
		wantCIDRs(t, w.allot(t, "n"), "[10.0.0.128/25]")
	})
	t.Run("not executed, smaller blocks, and edited once more", func(t *testing.T) {
		a := node("a", "10.0.2.0/24")
		w := begin(t, a, smaller)
		allow := w.Refuse("patch nodes n", lost)
		w.allot(t, "n")
		allow()
		w.succeed(t, single, a, b, n, next)
		wantCIDRs(t, w.allot(t, "next"), "[10.0.3.0/24]")
		wantCIDRs(t, w.allot(t, "n"), "[10.0.0.0/24]")
		if used := w.ranges.sets[0].used; used != 4 {
			t.Errorf("%d blocks are held, want 4", used)
		}
	})
}

// An edit reserves one of the ranges that may have been written to a node, or another process has given it away. The
// others stay held all the same. Pins IPAM-48 and IPAM-50.
func TestARangeThatMayHaveBeenWrittenIsHeldWithoutTheOthers(t *testing.T) {
	lost := errors.New("unexpected EOF")
	reserved := dual
	reserved.services[0] = "10.0.0.0/24"
	for name, tc := range map[string]struct {
		edited config
		other  *corev1.Node
		n      string
	}{
		"reserved":            {edited: reserved, n: "[10.0.1.0/24 fd00::/64]"},
		"that of another now": {edited: dual, other: node("x", "10.0.0.0/24"), n: "[10.0.1.0/24 fd00::/64]"},
	} {
		t.Run(name, func(t *testing.T) {
			n, b, next := node("n"), node("b", "10.0.2.0/24", "fd00:0:0:1::/64"), node("next")
			w := newWorld(t, dual, n, b, next)
			allow := w.Refuse("patch nodes n", lost)
			w.allot(t, "n")
			allow()
			cached := []*corev1.Node{n, b, next}
			if tc.other != nil {
				w.Env.Store(t, tc.other)
				cached = append(cached, tc.other)
			}
			w.succeed(t, tc.edited, cached...)
			const fullV6 = "failed to allocate cidr from cluster cidr at idx:1: " + full
			wantCIDRs(t, w.allot(t, "next"), fullV6)
			wantCIDRs(t, w.allot(t, "n"), tc.n)
			wantCIDRs(t, w.allot(t, "next"), fullV6)
		})
	}
}

// A list lacks a node, whose range one edit reserves for Services, and the next one does not. Pins IPAM-53.
func TestARangeIsStillHeldWhenItIsReservedNoMore(t *testing.T) {
	n := node("n", "10.0.0.0/24")
	others := []*corev1.Node{node("a"), node("b"), node("c"), node("d")}
	w := newWorld(t, single, append(others, n)...)
	w.lack(t, n)
	reserved := single
	reserved.services[0] = "10.0.0.0/24"
	w.succeed(t, reserved, others...)
	w.succeed(t, single, others...)
	for i, other := range others {
		want := []string{"[10.0.1.0/24]", "[10.0.2.0/24]", "[10.0.3.0/24]", "failed to allocate cidr from cluster cidr at idx:0: " + full}[i]
		wantCIDRs(t, w.allot(t, other.Name), want)
	}
}
