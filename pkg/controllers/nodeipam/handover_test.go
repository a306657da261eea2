package nodeipam

import (
	"errors"
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
