package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// lateWithin is how late a write may be. An API server gives up on a request after a minute.
const lateWithin = time.Minute

// lateWrite is a write that its sender has given up on, and that is still to be carried out.
type lateWrite struct {
	action clienttesting.Action
	sent   time.Time
	carry  func(clienttesting.Action) (runtime.Object, error)
}

// AnyWrite is for World.MayComeLate: any write may.
func AnyWrite(clienttesting.Action) bool { return true }

// IsLateWrite reports whether the write that a hook is called for comes after its sender has given up on it. What it
// was decided on may have changed since.
func (w *World) IsLateWrite() bool { return w.server.isLate }

// mayComeLate reports whether a request may be carried out late.
func (w *World) mayComeLate(action clienttesting.Action) bool {
	return w.MayComeLate != nil && !isRead(action) && w.MayComeLate(action)
}

// AwaitLate has all late writes carried out.
func (w *World) AwaitLate() {
	for w.server.comeLate() {
		w.rest()
	}
}

// DropLate has no late write carried out any more, for a model of a controller that cannot hold what it is to hold with
// those of an instance that was killed.
func (w *World) DropLate() { w.server.late = nil }

// comeLate has one of the late writes carried out, whichever was sent first. It returns false if there is none.
func (s *server) comeLate() bool {
	if len(s.late) == 0 {
		return false
	}
	n := s.w.Rand.IntN(len(s.late))
	write := s.late[n]
	s.late = slices.Delete(s.late, n, n+1)
	if s.w.Clock.Since(write.sent) > lateWithin {
		s.w.log("%s is given up", nameOfRequest(write.action))
		return true
	}
	s.w.log("late, sent at %s:", write.sent.Format("15:04:05.000"))
	s.isLate = true
	_, _ = s.carryOut(write.action, write.carry) // nobody waits for the answer
	s.isLate = false
	return true
}
