package election

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/utils/ptr"
)

// watchdogTolerance is how long after the end of an unrenewed lease the elector counts as stuck.
const watchdogTolerance = 20 * time.Second

// HealthCheckName is the name of the health check, as upstream's.
const HealthCheckName = "leaderElection"

// Check fails if this process should have renewed the lease and has not until 20s after the
// lease ended: the elector is stuck. A standby is always healthy, also one that lost the
// lease because it cannot reach the API server.
func (e *Elector) Check(*http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || e.opts.Clock.Since(e.view.changedAt) <= e.timings.LeaseDuration+watchdogTolerance {
		return nil
	}
	return fmt.Errorf("failed election to renew leadership on lease %s", e.opts.Name)
}

// CandidateCheckName is the name of the health check of the candidacy, as upstream's.
const CandidateCheckName = "informer-sync"

// CheckCandidate fails while the API server cannot choose this process because its
// LeaseCandidate is not kept yet. Without Coordination, and once the candidacy was
// withdrawn, nothing is to be kept.
func (e *Elector) CheckCandidate(req *http.Request) error {
	e.mu.Lock()
	candidate, released := e.candidate, e.released
	e.mu.Unlock()
	switch {
	case e.opts.Coordinated == nil || released:
		return nil
	case candidate == nil:
		return fmt.Errorf("there is no candidate for lease %s yet", e.opts.Name)
	}
	return candidate.Check(req)
}

// Status is the state of an election.
type Status struct {
	Identity string `json:"identity"`
	// Leading is whether this process holds the lease; Term counts its Terms.
	Leading bool   `json:"leading"`
	Term    uint64 `json:"term,omitempty"`
	// Holder is the last observed holder, Since the recorded time of its acquisition,
	// Transitions the recorded number of changes of the holder.
	Holder      string    `json:"holder"`
	Since       time.Time `json:"since,omitzero"`
	Transitions int32     `json:"transitions"`
	// Renewed is when this process last saw the record change, or changed it.
	Renewed time.Time `json:"renewed,omitzero"`
	// Watching is whether a standby watches the lease; if not, it reads it every RetryPeriod.
	Watching bool `json:"watching"`
	// LastError is the failure of the newest attempt, empty if it succeeded.
	LastError     string    `json:"lastError,omitempty"`
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
}

// Status returns a snapshot. It never waits for the API server.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{Identity: e.opts.Identity, Watching: e.view.watched, Renewed: e.view.changedAt}
	if e.term != nil && e.term.Valid() {
		s.Leading, s.Term = true, e.term.ID
	}
	if e.view.exists {
		s.Holder = holderOf(e.lease)
		s.Transitions = ptr.Deref(e.lease.Spec.LeaseTransitions, 0)
		if e.lease.Spec.AcquireTime != nil {
			s.Since = e.lease.Spec.AcquireTime.Time
		}
	}
	if e.lastErr != nil {
		s.LastError, s.LastErrorTime = e.lastErr.Error(), e.lastErrAt
	}
	return s
}
