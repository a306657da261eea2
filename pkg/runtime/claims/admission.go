package claims

import (
	"fmt"
	"maps"
	"slices"
)

// Admission decides what may run under one lock. It does no I/O: it returns what has to be
// claimed, and its caller passes in what others claim. It is not safe for concurrent use.
type Admission struct {
	lease     Lease
	wanted    map[string]bool
	active    map[string]bool // started, and not known to have stopped
	granted   map[string]bool
	withdrawn map[string]bool
	blocked   map[string]string
	version   uint64 // of the claim
}

// NewAdmission returns an Admission that permits nothing.
func NewAdmission(lease Lease) *Admission {
	return &Admission{
		lease:     lease,
		wanted:    map[string]bool{},
		active:    map[string]bool{},
		granted:   map[string]bool{},
		withdrawn: map[string]bool{},
		blocked:   map[string]string{},
	}
}

// Claim returns the controllers that the lease has to list, sorted: those wanted under the
// lock, except for withdrawn ones, and those that have not stopped yet.
func (a *Admission) Claim() []string {
	all := maps.Clone(a.active)
	for c := range a.wanted {
		if !a.withdrawn[c] {
			all[c] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Granted reports whether a controller may be started in this term.
func (a *Admission) Granted(controller string) bool { return a.granted[controller] }

// Grants reports whether anything may be started in this term.
func (a *Admission) Grants() bool { return len(a.granted) > 0 }

// Blocked returns, by controller that waits, who blocks it.
func (a *Admission) Blocked() map[string]string { return maps.Clone(a.blocked) }

// Pending reports whether there is a controller to ask for.
func (a *Admission) Pending() bool {
	for c := range a.wanted {
		if !a.granted[c] {
			return true
		}
	}
	return false
}

// Want sets the controllers that belong to the lock and are enabled.
func (a *Admission) Want(controllers []string) {
	a.change(func() {
		a.wanted = map[string]bool{}
		for _, c := range controllers {
			a.wanted[c] = true
		}
		a.forget()
	})
}

// Started records that a controller was permitted to run and has been told to start.
func (a *Admission) Started(controller string) {
	if a.active[controller] {
		return // as most are, whatever changes
	}
	a.change(func() { a.active[controller] = true })
}

// Stopped records that no instance of a controller runs under the lock any more.
func (a *Admission) Stopped(controller string) {
	a.change(func() {
		delete(a.active, controller)
		a.forget()
	})
}

// Active lists the controllers that were started and not reported as stopped, sorted.
func (a *Admission) Active() []string { return slices.Sorted(maps.Keys(a.active)) }

// Lost records the end of the term: all permissions end with it.
func (a *Admission) Lost() {
	a.version++
	clear(a.granted)
	clear(a.withdrawn)
	clear(a.blocked)
}

// forget drops what was said about controllers that are no longer claimed.
func (a *Admission) forget() {
	for _, about := range []map[string]bool{a.granted, a.withdrawn} {
		maps.DeleteFunc(about, func(c string, _ bool) bool { return !a.wanted[c] && !a.active[c] })
	}
	maps.DeleteFunc(a.blocked, func(c, _ string) bool { return !a.wanted[c] })
}

// change counts a change of the claim.
func (a *Admission) change(f func()) {
	before := a.Claim()
	f()
	if !slices.Equal(before, a.Claim()) {
		a.version++
	}
}

// Question is what a read of the leases is to answer.
type Question struct {
	version uint64
	claim   []string
}

// Ask returns the current question. The claim has to be stored before the leases are read.
func (a *Admission) Ask() Question { return Question{version: a.version, claim: a.Claim()} }

// Answer records the live claims of others, from a read that began when the claim of the
// question was stored. It reports whether something changed: permissions, or the claim, which
// has to be stored again then. The answer to an earlier question is dropped, see rule 5 of the
// package comment.
func (a *Admission) Answer(q Question, others []Claim) (changed bool) {
	if q.version != a.version {
		return false
	}
	before, blocked := len(a.granted), maps.Clone(a.blocked)
	a.change(func() {
		for c := range a.wanted {
			if !a.granted[c] {
				a.judge(c, slices.Contains(q.claim, c), others)
			}
		}
	})
	return len(a.granted) != before || a.version != q.version || !maps.Equal(blocked, a.blocked)
}

// judge decides about one controller.
func (a *Admission) judge(controller string, claimed bool, others []Claim) {
	n := slices.IndexFunc(others, func(c Claim) bool { return c.Lease != a.lease && c.covers(controller) })
	switch {
	case n < 0 && claimed:
		a.granted[controller] = true
		delete(a.blocked, controller)
		return
	case n < 0:
		// Nobody else claims it, but this lease did not list it when the others were read. It lists it from here on,
		// and the next answer, to a question with that claim, decides.
		delete(a.withdrawn, controller)
		return
	}
	a.blocked[controller] = fmt.Sprintf("the holder of lease %s (%s) still runs it", others[n].Lease, others[n].Holder)
	if !a.active[controller] && slices.ContainsFunc(others, func(c Claim) bool {
		return c.Lease.before(a.lease) && c.covers(controller)
	}) {
		a.withdrawn[controller] = true
	}
}
