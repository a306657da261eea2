package nodelifecycle

import "time"

// sight describes whether the instance itself is able to observe heartbeats. It cannot judge a node while
// it is disconnected from the API server, right after it reconnects, or while its watch may be stale. The
// lock of the cluster protects it.
type sight struct {
	// quiet is how long the instance may hear nothing from any node before it checks its own view.
	quiet time.Duration
	// interruption is the maximum time without a sign of the API server. After a longer time,
	// earlier silence no longer counts.
	interruption time.Duration

	// since is the earliest time from which silence counts.
	since time.Time
	// sign is the last time at which the API server was known to be reachable.
	sign time.Time
	// failed is when the last request was sent that was to show whether the API server is reachable, and failed.
	failed time.Time
	// leases is the last time at which the observed Leases were known to be current. The instance
	// knows nothing about later renewals.
	leases time.Time
}

// newSight returns the sight of an instance with this grace period and this time between passes. By
// default, quiet is 12.5 and interruption is 22.5 seconds. Kubelets report every 10 seconds.
func newSight(grace, period time.Duration) sight {
	quiet := grace / 4
	return sight{quiet: quiet, interruption: quiet + 2*period}
}

// begin is called when an instance begins without a predecessor.
func (s *sight) begin(now time.Time) { s.since, s.sign = now, now }

// reached records a sign of the API server. That of an answer is the time at which the request was sent. After an
// interruption, silence counts from now. A failed request counts as an interruption, too: the kubelets may have got no
// answer either.
func (s *sight) reached(now time.Time) {
	if now.Sub(s.sign) > s.interruption || s.failed.After(s.sign) && now.After(s.failed) {
		s.since = now
	}
	if now.After(s.sign) {
		s.sign = now
	}
}

// unreached records that a request failed that was to show whether the API server is reachable.
func (s *sight) unreached(now time.Time) { s.failed = now }

// sawLeases records that the observed Leases were current at a time.
func (s *sight) sawLeases(at time.Time) {
	if at.After(s.leases) {
		s.leases = at
	}
}

// isOpen reports whether there was a recent sign of the API server.
func (s *sight) isOpen(now time.Time) bool { return now.Sub(s.sign) <= s.quiet }

// silentSince returns the time from which the silence of a node counts, given when it was last seen.
func (s *sight) silentSince(seen time.Time) time.Time {
	if seen.Before(s.since) {
		return s.since
	}
	return seen
}
