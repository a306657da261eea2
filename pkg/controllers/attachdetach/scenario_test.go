package attachdetach

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/controllertest"
)

// Pins ATT-19, ATT-20, ATT-21, ATT-39a, ATT-40e, ATT-40g, ATT-43, ATT-48, ATT-49 and ATT-75.
func TestAVolumeIsAttachedAndDetached(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
	s.Store(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(create, reported+"a")
	s.is("v@a wanted attached listed")
	s.shows("a", "v")
	s.WantEvents(t, succeeded)

	controllertest.Change(t, s.Env, "", "a", uses("v"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(time.Hour)
	s.sent()
	s.is("v@a attached listed")

	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.sent(reported+"a", inquired, look+"a", remove) // it has waited for longer than maxWait
	s.is()
	s.shows("a")
	s.WantEvents(t)
}

// What can be detached is, before anybody is told that a volume is in use.
//
// Pins ATT-25 and ATT-40a.
func TestAVolumeMovesWithoutAnError(t *testing.T) {
	s := newStage(t, aNode("a", uses()), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.WantEvents(t, succeeded)
	s.Remove(t, aPod("pod", "a", "v"))
	s.Store(t, aPod("other", "b", "v"))
	s.pass(soon)
	s.is("v@b wanted attached listed")
	s.WantEvents(t, succeeded)
}

// Pins ATT-26, ATT-38 and ATT-67.
func TestAVolumeForManyNodesIsAttachedToEach(t *testing.T) {
	s := newStage(t, aNode("a"), aNode("b"), aVolume("v", corev1.ReadWriteMany), aClaim("v"), aPod("pod", "a", "v"), aPod("other", "b", "v"))
	s.is("v@a wanted attached listed", "v@b wanted attached listed")
	controllertest.Change(t, s.Env, "", "a", uses())
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.is("v@b wanted attached listed")
	s.shows("a")
	s.shows("b", "v")
}

// Pins ATT-40c and ATT-40i.
func TestAVolumeForOneNodeIsNotAttachedToAnother(t *testing.T) {
	s := newStage(t, aNode("a", uses("v")), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.sent(create, reported+"a")
	s.WantEvents(t, succeeded)
	s.Store(t, aPod("other", "b", "v"))
	s.pass(time.Hour)
	s.WantEvents(t, multiplied+"used by pod(s) pod")
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.is("v@a attached listed", "v@b wanted")
	s.WantEvents(t)

	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.sent(reported+"a", remove, create, reported+"b")
	s.is("v@b wanted attached listed")
	s.WantEvents(t, succeeded)
}

// Pins ATT-39f and ATT-78.
func TestAVolumeIsNotDetachedWhileItsNodeHasNotBeenTold(t *testing.T) {
	s := newStage(t, aNode("a"), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.WantEvents(t, succeeded)
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.sent(create, reported+"a")
	allow := s.Refuse("patch nodes/status a", errors.New("no"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.Store(t, aPod("other", "b", "v"))
	s.pass(2500 * time.Millisecond)
	s.sent(reported+"a", reported+"a", reported+"a")
	s.is("v@a attached", "v@b wanted")
	s.WantEvents(t, multiplied+"exclusively attached to one node and can't be attached to another")
	allow()
	s.pass(time.Second)
	s.is("v@b wanted attached listed")
}

// Pins ATT-39b, ATT-58 and ATT-78.
func TestAVolumeThatIsWantedAgainIsReportedAgain(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	allow := s.Refuse("patch nodes/status a", errors.New("no"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.is("v@a attached")
	s.Store(t, aPod("next", "a", "v"))
	s.pass(soon)
	allow()
	s.pass(time.Minute)
	s.is("v@a wanted attached listed")
	s.shows("a", "v")
	s.WantEvents(t, succeeded)
}

// Pins ATT-40b, ATT-58.
func TestAPodThatAppearsAgainResetsTheTimer(t *testing.T) {
	s := newStage(t, aNode("a", uses("v"), notReady), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	for range 3 {
		s.Remove(t, aPod("pod", "a", "v"))
		s.pass(maxWait - time.Second)
		s.Store(t, aPod("pod", "a", "v"))
		s.pass(time.Minute)
	}
	s.is("v@a wanted attached listed")
	s.wantForced()
}

// A pod is created while its volume is being detached.
//
// Pins ATT-40a and ATT-58.
func TestAnAttachWaitsForTheDetach(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.idle = true
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.Store(t, aPod("next", "a", "v"))
	s.pass(time.Minute)
	s.is("v@a wanted attached")
	s.idle = false
	s.pass(soon)
	s.is("v@a wanted attached listed")
	s.sent(create, reported+"a", reported+"a", remove, create, reported+"a")
}
