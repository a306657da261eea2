package claims

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// Observer remembers since when leases are as they are, and with that whose holders live.
// The zero value has seen nothing. It can be used by several goroutines.
type Observer struct {
	mu    sync.Mutex
	since map[Lease]sighting
}

// sighting is the version of a lease and when it was first seen.
type sighting struct {
	version string
	at      time.Time
}

// Live takes note of the leases that a read showed, and returns the claims of those that
// somebody but self holds and keeps. read is when the read began, main the lease of
// processes that know no claims.
func (o *Observer) Live(leases []coordinationv1.Lease, self string, main Lease, read time.Time) []Claim {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since == nil {
		o.since = map[Lease]sighting{}
	}
	var live []Claim
	for n := range leases {
		l := &leases[n]
		seen := o.note(l, read)
		claim := claimOf(l, main)
		duration := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
		if claim.Holder == "" || claim.Holder == self || read.Sub(seen.at) >= duration {
			continue
		}
		live = append(live, claim)
	}
	return live
}

// note remembers a lease. Reads of several locks can overlap, so that an older one is noted
// later: that only makes the lease look younger.
func (o *Observer) note(l *coordinationv1.Lease, read time.Time) sighting {
	seen, known := o.since[leaseOf(l)]
	if !known || seen.version != l.ResourceVersion {
		seen = sighting{version: l.ResourceVersion, at: read}
		o.since[leaseOf(l)] = seen
	}
	return seen
}
