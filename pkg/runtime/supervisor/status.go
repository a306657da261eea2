package supervisor

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"kcmd.dev/pkg/controller"
)

// State is what a controller is doing.
type State string

const (
	// Disabled: the configuration turns the controller off.
	Disabled State = "Disabled"
	// Standby: another process holds the lease; the caches are kept warm.
	Standby State = "Standby"
	// Paused: the configuration pauses the controller; the caches are kept warm.
	Paused State = "Paused"
	// Waiting: something the controller needs is missing; see Status.Reason.
	Waiting State = "Waiting"
	// Idle: enabled, but with nothing to do in this configuration.
	Idle State = "Idle"
	// Running: an instance runs.
	Running State = "Running"
	// Stopping: an instance finishes the work in flight.
	Stopping State = "Stopping"
	// BackingOff: the last instance failed; the next one starts after a delay.
	BackingOff State = "BackingOff"
)

// States are all states, in the order in which they are listed.
var States = []State{Disabled, Standby, Paused, Waiting, Idle, Running, Stopping, BackingOff}

// Status is a snapshot of one controller.
type Status struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Reason explains a state that is not Running.
	Reason string `json:"reason,omitempty"`
	// Pending is set while a decision about the controller is not carried out yet, so State
	// is about to change.
	Pending bool `json:"pending,omitempty"`
	// Generation counts the instances that ran in this process.
	Generation uint64 `json:"generation"`
	// Started is when the running instance was started.
	Started time.Time `json:"started,omitzero"`
	// Restarts counts replaced instances by cause.
	Restarts map[string]uint64 `json:"restarts,omitempty"`
	// LastError is the newest failure of an instance, LastErrorTime when it was.
	LastError     string    `json:"lastError,omitempty"`
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
	// Stuck names a key that has been worked on for too long.
	Stuck string `json:"stuck,omitempty"`
	// HandOverError is why the last instance that ended handed nothing over, empty if it
	// did.
	HandOverError string `json:"handOverError,omitempty"`
	// Abandoned counts instances that did not stop and were fenced and abandoned.
	Abandoned uint64 `json:"abandoned,omitempty"`
	// Loops are the work loops of the running instance.
	Loops []controller.LoopStatus `json:"loops,omitempty"`
}

// Healthy reports whether the controller does what is wanted, with the reason if not.
func (s Status) Healthy() (bool, string) {
	switch {
	case s.Stuck != "":
		return false, "stuck on " + s.Stuck
	case s.State == BackingOff:
		return false, "backing off after: " + s.LastError
	}
	return true, ""
}

func (u *unit) snapshot() Status {
	u.mu.Lock()
	s := u.status
	s.Pending = u.pending
	s.Restarts = maps.Clone(u.status.Restarts)
	current := u.current
	u.mu.Unlock()
	if current != nil {
		s.Loops = u.loops(current)
		s.Reason = cmp.Or(s.Reason, waiting(s.Loops), stopped(s.Loops), heldBack(s.Loops))
	}
	return s
}

// waiting describes what keeps loops from working, empty if nothing does.
func waiting(loops []controller.LoopStatus) string {
	for _, l := range loops {
		if l.Waiting != "" {
			return "waits: " + l.Waiting
		}
	}
	return ""
}

// stopped says how many keys wait until deletions go on, empty if none does.
func stopped(loops []controller.LoopStatus) string {
	return keys(loops, func(l controller.LoopStatus) int { return l.Stopped },
		"1 key waits until deletions go on (deletionBreaker)", "%d keys wait until deletions go on (deletionBreaker)")
}

// heldBack says how many keys wait for the end of a pause, empty if none does.
func heldBack(loops []controller.LoopStatus) string {
	return keys(loops, func(l controller.LoopStatus) int { return l.Held },
		"1 key is held back by a pause", "%d keys are held back by a pause")
}

// keys says in one of the texts how many keys of the loops are counted, empty if none is.
func keys(loops []controller.LoopStatus, count func(controller.LoopStatus) int, one, many string) string {
	n := 0
	for _, l := range loops {
		n += count(l)
	}
	switch n {
	case 0:
		return ""
	case 1:
		return one
	}
	return fmt.Sprintf(many, n)
}
