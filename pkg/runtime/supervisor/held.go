package supervisor

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// held is an instance that was built and waits for its turn to start.
type held struct {
	move  *move
	start <-chan time.Time
}

// due receives a value when the wait is over. It is nil, which blocks forever, if nothing
// waits.
func (h *held) due() <-chan time.Time {
	if h == nil {
		return nil
	}
	return h.start
}

// startOrHold starts what a move has built, after the wait that spreads a beginning.
func (u *unit) startOrHold(m *move) {
	delay := u.startDelay(m)
	if delay <= 0 {
		u.start(m.instance, m.failed, m.decided)
		return
	}
	u.held = &held{move: m, start: u.options.Clock.After(delay)}
	u.setState(Waiting, fmt.Sprintf("starts after a delay of %v, so that not all controllers start at the same time", delay.Round(time.Millisecond)))
}

// startDelay returns how long the first instance of a term waits. What the API server serves
// may become known only after the lease was won.
func (u *unit) startDelay(m *move) time.Duration {
	first := !u.begun || u.beganIn != m.want.Spec.Term
	u.begun, u.beganIn = true, m.want.Spec.Term
	if !first || m.cause != CauseStart && m.cause != CauseLease && m.cause != CauseAPI {
		return 0
	}
	interval := time.Duration(u.interval.Load())
	return interval + time.Duration(rand.Float64()*float64(interval))
}

func (u *unit) startHeld() {
	m := u.held.move
	u.held = nil
	u.start(m.instance, m.failed, m.decided)
}

// dropHeld drops the instance that waits for its start.
func (u *unit) dropHeld() {
	if u.held == nil {
		return
	}
	u.held.move.discard()
	u.held = nil
}
