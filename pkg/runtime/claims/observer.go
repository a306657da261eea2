package claims

import (
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// longest is how long a record that does not change is believed at most: the highest leaseDuration that a configuration
// may have. Holders of this program rely on their lease for no longer.
const longest = time.Hour

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
// but self holds and keeps. It forgets leases that the read did not show. read is when it began,
// main the lease of processes that do not support claims.
func (o *Observer) Live(leases []coordinationv1.Lease, self string, main Lease, read time.Time) []Claim {
	o.mu.Lock()
	defer o.mu.Unlock()
	shown := map[Lease]bool{}
	var live []Claim
	for n := range leases {
		shown[leaseOf(&leases[n])] = true
		if claim, alive := o.look(&leases[n], self, main, read); alive {
			live = append(live, claim)
		}
	}
	maps.DeleteFunc(o.since, func(l Lease, _ sighting) bool { return !shown[l] })
	return live
}

// Stranger returns the last observed live holder of the main lease if that has no claim: such
// a process runs everything. It is empty otherwise.
func (o *Observer) Stranger(main *coordinationv1.Lease, self string, now time.Time) string {
	if main == nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if claim, alive := o.look(main, self, leaseOf(main), now); alive && claim.All {
		return claim.Holder
	}
	return ""
}

// look records a lease, and returns its claim. alive is set if somebody but self holds and keeps it.
func (o *Observer) look(l *coordinationv1.Lease, self string, main Lease, read time.Time) (claim Claim, alive bool) {
	seen, claim := o.note(l, read), claimOf(l, main)
	duration := min(time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second, longest)
	return claim, claim.Holder != "" && claim.Holder != self && read.Sub(seen.at) < duration
}

// note remembers a lease. Reads of several locks and events of a watch can overlap, so that
// an older record is noted later, or one that is there is forgotten: that only makes the lease
// look more recently renewed.
func (o *Observer) note(l *coordinationv1.Lease, read time.Time) sighting {
	seen, known := o.since[leaseOf(l)]
	if o.since == nil {
		o.since = map[Lease]sighting{}
	}
	if !known || !equality.Semantic.DeepEqual(seen.record, l.Spec) {
		seen = sighting{record: *l.Spec.DeepCopy(), at: read}
		o.since[leaseOf(l)] = seen
	}
	return seen
}
