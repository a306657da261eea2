package leadership

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"kcmd.dev/pkg/runtime/election"
)

// Status is whether this process may run controllers.
type Status struct {
	Leading bool `json:"leading"`
	// Term counts the terms of this process.
	Term uint64 `json:"term"`
	// Lease is the state of the lock; missing without leader election.
	Lease *election.Status `json:"lease,omitempty"`
	// Leases are all locks of the configuration, the main one first.
	Leases []LeaseStatus `json:"leases"`
}

// LeaseStatus is one lock, and the controllers that run under it.
type LeaseStatus struct {
	// Lock names it: main, migration or group/<name>.
	Lock string `json:"lock"`
	// Leading is whether this process holds it; Term counts the terms of this process.
	Leading bool   `json:"leading"`
	Term    uint64 `json:"term"`
	// Controllers are the enabled ones that are assigned to it, sorted.
	Controllers []string `json:"controllers"`
	// Blocked describes, for controllers, who still runs them elsewhere.
	Blocked map[string]string `json:"blocked,omitempty"`
	// Problem is why this process, which holds the lease, cannot find out what others run, or cannot let them know what it
	// runs, empty if it can.
	Problem string `json:"problem,omitempty"`
	// Election is the state of the lease; missing without leader election.
	Election *election.Status `json:"election,omitempty"`
}

// shown is what the status shows of a lock. It is replaced as a whole.
type shown struct {
	status  LeaseStatus
	term    *election.Term
	elector *election.Elector
}

// show publishes the current state of the locks.
func (l *Leadership) show() {
	var all []shown
	for _, k := range l.locks {
		s := LeaseStatus{Lock: k.Name, Term: k.number, Controllers: append([]string{}, k.enabled...)}
		slices.Sort(s.Controllers)
		if k.elector != nil && k.term != nil {
			s.Blocked, s.Problem = k.admission.Blocked(), k.problem()
		}
		all = append(all, shown{status: s, term: k.term, elector: k.elector})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = all
}

// problem is what is wrong with the claims of a lock that is held. What could not be read is one only while something
// waits for it.
func (k *Lock) problem() string {
	if k.trouble != "" && k.admission.Pending() {
		return k.trouble
	}
	return k.hidden
}

func (s *shared) visible() []shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

// Status returns a snapshot. It is safe for concurrent use.
func (l *Leadership) Status() Status {
	leases := l.visible()
	s := Status{Leases: make([]LeaseStatus, 0, len(leases))}
	for _, k := range leases {
		one := k.status
		one.Leading = k.term != nil && k.term.Valid()
		if k.elector != nil {
			state := k.elector.Status()
			one.Election = &state
		}
		s.Leases = append(s.Leases, one)
	}
	if len(s.Leases) > 0 {
		main := s.Leases[0]
		s.Leading, s.Term, s.Lease = main.Leading, main.Term, main.Election
	}
	return s
}

// CheckRenewal fails if this process should renew a lease and does not manage to. It is safe
// for concurrent use.
func (l *Leadership) CheckRenewal(req *http.Request) error {
	return l.check(req, (*election.Elector).Check)
}

// CheckCandidate fails while the API server is to choose the leader and cannot choose this
// process. It is safe for concurrent use.
func (l *Leadership) CheckCandidate(req *http.Request) error {
	return l.check(req, (*election.Elector).CheckCandidate)
}

// CheckClaims fails while this process holds a lease and starts nothing under it because it cannot find out what other
// processes run, or while these may not find out what it runs. It is safe for concurrent use.
func (l *Leadership) CheckClaims(*http.Request) error {
	var failed []error
	for _, k := range l.visible() {
		if k.status.Problem != "" && k.term.Valid() {
			failed = append(failed, fmt.Errorf("lock %s: %s", k.status.Lock, k.status.Problem))
		}
	}
	return errors.Join(failed...)
}

func (l *Leadership) check(req *http.Request, check func(*election.Elector, *http.Request) error) error {
	var failed []error
	for _, k := range l.visible() {
		if k.elector != nil {
			failed = append(failed, check(k.elector, req))
		}
	}
	return errors.Join(failed...)
}
