package attachdetach

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/controllertest"
)

// Pins ATT-37, ATT-43, ATT-62, ATT-68 and ATT-78.
func TestNodesComeAndGo(t *testing.T) {
	s := newStage(t, aNode("a", uses("v")), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(create, reported+"a")
	s.Remove(t, aNode("a"))
	s.pass(soon)
	s.is("v@a wanted attached listed")
	s.sent()
	s.Store(t, aNode("a", another, uses("v")))
	s.pass(soon)
	s.sent(reported + "a")
	s.shows("a", "v")

	s.Remove(t, aNode("a"), aPod("pod", "a", "v"))
	s.pass(maxWait)
	s.is("v@a attached listed")
	s.pass(time.Second)
	s.is()
	s.wantForced("reason=timeout 1")
	if len(s.c.world.nodes)+len(s.c.world.volumes)+len(s.c.world.pods)+len(s.c.world.byVA)+len(s.c.world.doubtful)+len(s.c.world.incomplete) > 0 {
		t.Errorf("left are %v", s.c.world)
	}
}

// A write was to another Node of that name.
//
// Pins ATT-43 and ATT-78.
func TestANodeOfAnotherUIDIsNotWritten(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
	s.hide(&corev1.Node{})
	s.Store(t, aNode("a", another), aPod("pod", "a", "v"))
	s.pass(promptly)
	s.sent(create, reported+"a")
	s.shows("a")
	s.hide()
	s.pass(2 * time.Second)
	s.sent(reported + "a")
	s.shows("a", "v")
}

// Somebody else changes what a node shows, as a write does that was given up and takes place later.
//
// Pins ATT-63 and ATT-78.
func TestANodeShowsWhatIsAttached(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(create, reported+"a")
	controllertest.Change(t, s.Env, "", "a", showing("v", "w"))
	s.pass(soon)
	s.sent(reported + "a")
	s.shows("a", "v")
	stale := aNode("a", showing("w"))
	stale.ResourceVersion = "1"
	s.Cache(t, stale)
	s.c.nodeChanged(stale)
	s.hide(&corev1.Node{})
	s.pass(time.Minute)
	s.sent()
}
