package claims

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// Observer remembers since when the records of leases have not changed, and so which holders
// are alive. There is one for the leases of each API server. The zero value has seen nothing.
// It is safe for concurrent use.
type Observer struct {
	mu    sync.Mutex
	since map[Lease]sighting
}

// sighting is the record of a lease and when it was first seen. Versions do not help: they
// also change when others write something else, and a restored etcd uses them again.
type sighting struct {
	record coordinationv1.LeaseSpec
	at     time.Time
}

// Live records the leases that a read showed, and returns the claims of those that somebody
// but self holds and keeps. read is when the read began, main the lease of processes that do
// not support claims.
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

// Stranger returns the last observed live holder of the main lease if that has no claim: such
// a process runs everything. It is empty otherwise.
func (o *Observer) Stranger(main *coordinationv1.Lease, self string, now time.Time) string {
	if main == nil {
		return ""
	}
	for _, c := range o.Live([]coordinationv1.Lease{*main}, self, leaseOf(main), now) {
		if c.All {
			return c.Holder
		}
	}
	return ""
}

// note remembers a lease. Reads of several locks and events of a watch can overlap, so that
// an older record is noted later: that only makes the lease look more recently renewed.
func (o *Observer) note(l *coordinationv1.Lease, read time.Time) sighting {
	seen, known := o.since[leaseOf(l)]
	if !known || !equality.Semantic.DeepEqual(seen.record, l.Spec) {
		seen = sighting{record: *l.Spec.DeepCopy(), at: read}
		o.since[leaseOf(l)] = seen
	}
	return seen
}
