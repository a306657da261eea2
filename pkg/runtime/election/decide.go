package election

import (
	"fmt"
	"time"
)

// Timings are the durations of an election.
type Timings struct {
	// LeaseDuration is how long other candidates leave a lease alone that is not renewed.
	// The record holds whole seconds, at least one. Kubernetes' default is 15s.
	LeaseDuration time.Duration
	// RenewDeadline is how long a Term stays valid without renewal. It must be shorter
	// than LeaseDuration. Kubernetes' default is 10s.
	RenewDeadline time.Duration
	// RetryPeriod is the period of renewals, and of attempts after a failure. It must be
	// shorter than RenewDeadline/1.2. Kubernetes' default is 2s.
	RetryPeriod time.Duration
}

// seconds is LeaseDuration as it is recorded.
func (t Timings) seconds() int32 { return int32(max(t.LeaseDuration/time.Second, 1)) }

// validFor is how long a Term lasts after the start of a renewal that recorded a lease of
// this many seconds. It never exceeds what was recorded, whatever the timings.
func (t Timings) validFor(seconds int32) time.Duration {
	return min(t.RenewDeadline, time.Duration(seconds)*time.Second)
}

// requestTimeout bounds one request for the lease: half the renew deadline, so that there
// is time for a second one, but at least a second.
func (t Timings) requestTimeout() time.Duration { return max(time.Second, t.RenewDeadline/2) }

// verb is an action of an elector.
type verb string

const (
	wait    verb = "wait"    // do nothing for a while
	read    verb = "read"    // GET the lease
	create  verb = "create"  // CREATE the lease with self as holder
	acquire verb = "acquire" // UPDATE the lease to self
	renew   verb = "renew"   // UPDATE the lease that self holds
	resign  verb = "resign"  // end the Term, send nothing
)

// action is a decision.
type action struct {
	verb  verb
	after time.Duration // with wait: when to decide again if nothing happens
}

func (a action) String() string {
	if a.verb == wait {
		return fmt.Sprintf("wait %v", a.after)
	}
	return string(a.verb)
}

func waitFor(d time.Duration) action { return action{verb: wait, after: d} }

// view is what a decision rests on.
type view struct {
	known     bool          // the fields below are what the API server last reported
	exists    bool          // the lease exists; if not, the record is the last one that did
	holder    string        // identity of the holder, empty after a release
	foreign   bool          // the record names self, and somebody else has written it
	preferred string        // who should hold it instead, see Coordination
	duration  time.Duration // recorded lease duration
	changedAt time.Time     // local time at which the last change was observed
	freeAt    time.Time     // local time at which it was first seen without holder
	seenAt    time.Time     // local time at which the lease was last read
	watched   bool          // a watch reports changes
	leading   bool          // self has a valid Term
	renewedAt time.Time     // start of the last successful renewal
	renewNow  bool          // do not wait for the next renewal
	retryAt   time.Time     // no attempt before, after a failure
	holdOff   time.Time     // not to be taken before, after a yield
	jitter    time.Duration // how long to leave an expired lease to others
	delay     time.Duration // how long to leave a free or expired lease to others
}

// decide is the whole policy of an election that the candidates settle among themselves.
func decide(v view, now time.Time, self string, t Timings) action {
	switch {
	case now.Before(v.retryAt):
		return waitFor(v.retryAt.Sub(now))
	case !v.known:
		return action{verb: read}
	case v.leading && !v.exists:
		return action{verb: create}
	case v.leading && v.holder == self:
		return v.keep(now, t)
	}
	if at := v.takeAt(self); now.Before(at) {
		return v.orPoll(at.Sub(now), now, t)
	}
	if !v.exists {
		return action{verb: create}
	}
	return action{verb: acquire}
}

// decideCoordinated is the whole policy of a candidate that the API server chooses: it
// takes what it is given and gives up what it is asked for.
func decideCoordinated(v view, now time.Time, self string, t Timings) action {
	mine := v.exists && v.holder == self && v.preferred == ""
	switch {
	case now.Before(v.retryAt):
		return waitFor(v.retryAt.Sub(now))
	case !v.known:
		return action{verb: read}
	case v.leading && !mine:
		return action{verb: resign}
	case v.leading:
		return v.keep(now, t)
	case !mine:
		return v.orRead(now, t)
	case now.Before(v.holdOff):
		return v.orPoll(v.holdOff.Sub(now), now, t)
	}
	return action{verb: acquire}
}

// keep renews the lease in time.
func (v view) keep(now time.Time, t Timings) action {
	if next := v.renewedAt.Add(t.RetryPeriod); !v.renewNow && now.Before(next) {
		return waitFor(next.Sub(now))
	}
	return action{verb: renew}
}

// expiry returns when the record, as last seen, expires.
func (v view) expiry() time.Time { return v.changedAt.Add(v.duration) }

// own reports whether self is the holder by a record that it has written.
func (v view) own(self string) bool { return v.holder == self && !v.foreign }

// contestable reports whether any candidate may take the lease now: nobody holds it, or
// another one that did not renew it.
func (v view) contestable(now time.Time, self string) bool {
	return v.known && !v.leading && !v.own(self) && (v.holder == "" || !now.Before(v.expiry()))
}

// takeAt returns when self may take the lease, if nothing happens until then. The holder of a
// deleted lease may not have noticed yet: it is treated like the holder of a lease that exists. The
// writer of a foreign record holds the lease, whatever name it uses.
func (v view) takeAt(self string) time.Time {
	var at time.Time
	switch {
	case v.own(self):
	case v.holder == "":
		at = v.freeAt.Add(v.delay)
	default:
		at = v.expiry().Add(v.jitter + v.delay)
	}
	if at.Before(v.holdOff) {
		return v.holdOff
	}
	return at
}

// orRead waits for a change, and reads the lease if nothing was heard of it for as long as it lasts. That a watch tells
// nothing any more is noticed otherwise only by an attempt to take a lease that seems to have expired.
func (v view) orRead(now time.Time, t Timings) action {
	due := v.seenAt.Add(t.LeaseDuration).Sub(now)
	if due <= 0 {
		return action{verb: read}
	}
	return v.orPoll(due, now, t)
}

// orPoll waits for d, and reads the lease every RetryPeriod if no watch reports changes.
func (v view) orPoll(d time.Duration, now time.Time, t Timings) action {
	if v.watched {
		return waitFor(d)
	}
	poll := v.seenAt.Add(t.RetryPeriod).Sub(now)
	if poll <= 0 {
		return action{verb: read}
	}
	return waitFor(min(d, poll))
}
