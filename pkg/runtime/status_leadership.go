package runtime

import (
	"errors"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/server/healthz"

	"kcmd.dev/pkg/runtime/election"
)

// LeadershipStatus is whether this process may run controllers.
type LeadershipStatus struct {
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
	// Blocked says of controllers who still runs them elsewhere.
	Blocked map[string]string `json:"blocked,omitempty"`
	// Election is the state of the lease; missing without leader election.
	Election *election.Status `json:"election,omitempty"`
}

// shownLock is what the status shows of a lock. The loop replaces it as a whole.
type shownLock struct {
	status  LeaseStatus
	term    *election.Term
	elector *election.Elector
}

// showLeases makes the locks as they are now visible.
func (r *Runtime) showLeases() {
	var shown []shownLock
	for _, k := range r.leadership.locks {
		s := LeaseStatus{Lock: k.Name, Term: k.number, Controllers: append([]string{}, r.wanted(k.Name)...)}
		slices.Sort(s.Controllers)
		if k.elector != nil && k.term != nil {
			s.Blocked = k.admission.Blocked()
		}
		shown = append(shown, shownLock{status: s, term: k.term, elector: k.elector})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases = shown
}

// leadershipStatus is the part of the status about leases.
func leadershipStatus(leases []shownLock) LeadershipStatus {
	s := LeadershipStatus{Leases: make([]LeaseStatus, 0, len(leases))}
	for _, l := range leases {
		one := l.status
		one.Leading = l.term != nil && l.term.Valid()
		if l.elector != nil {
			state := l.elector.Status()
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

// leaderCheck fails if this process should renew a lease and does not get to it.
func (r *Runtime) leaderCheck() healthz.HealthChecker {
	return r.electionCheck(election.HealthCheckName, (*election.Elector).Check)
}

// candidateCheck fails while the API server is to choose the leader and cannot choose this
// process.
func (r *Runtime) candidateCheck() healthz.HealthChecker {
	return r.electionCheck(election.CandidateCheckName, (*election.Elector).CheckCandidate)
}

func (r *Runtime) electionCheck(name string, check func(*election.Elector, *http.Request) error) healthz.HealthChecker {
	return healthz.NamedCheck(name, func(req *http.Request) error {
		r.mu.Lock()
		leases := r.leases
		r.mu.Unlock()
		var failed []error
		for _, l := range leases {
			if l.elector != nil {
				failed = append(failed, check(l.elector, req))
			}
		}
		return errors.Join(failed...)
	})
}
