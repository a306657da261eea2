package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

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

// A list after a break of the watch lacks a Lease, and with it the last renewal. Pins NLC-114.
func TestALeaseThatTheCacheLacksIsRead(t *testing.T) {
	w := newWorld(t, settings, node("n"), node("other"))
	cached := lease("n", "2", w.Env.Clock.Now())
	w.Cache(t, cached)
	w.live(t, 10*time.Second)
	w.fall("n")
	w.live(t, 40*time.Second)
	w.Env.Store(t, lease("n", "3", w.Env.Clock.Now()))
	w.Uncache(t, cached)
	for range 3 {
		w.Env.Clock.Step(w.period)
		w.renew("other")
		w.work(t)
	}
	w.wantReady(t, "n", corev1.ConditionTrue)
	w.live(t, 50*time.Second)
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
