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

// sighting is the record of a lease and when it was first seen, and the claim that was seen last.
// Versions do not help: they also change when others write something else, and a restored etcd
// uses them again.
type sighting struct {
	record coordinationv1.LeaseSpec
	at     time.Time
	claim  Claim
}

// alive reports whether the record has changed recently enough that its holder may rely on it.
func (s sighting) alive(now time.Time) bool {
	duration := min(time.Duration(ptr.Deref(s.record.LeaseDurationSeconds, 0))*time.Second, longest)
	return now.Sub(s.at) < duration
}

// Live records the leases that a read showed, and returns the claims of those that somebody
// but self holds and keeps. The holder of a lease that the read does not show any more may not
// have noticed yet that it was deleted: it counts until its record expires, and is forgotten then.
// read is when the read began, main the lease of processes that do not support claims.
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
	maps.DeleteFunc(o.since, func(l Lease, s sighting) bool { return !shown[l] && !s.alive(read) })
	for l, s := range o.since {
		if !shown[l] && s.claim.isForeign(self) {
			live = append(live, s.claim)
		}
	}
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
	claim = claimOf(l, main)
	return claim, o.note(l, claim, read).alive(read) && claim.isForeign(self)
}

// note remembers a lease. Reads of several locks and events of a watch can overlap, so that
// an older record is noted later, or one that is there is forgotten: that only makes the lease
// look more recently renewed.
func (o *Observer) note(l *coordinationv1.Lease, claim Claim, read time.Time) sighting {
	seen, known := o.since[leaseOf(l)]
	if o.since == nil {
		o.since = map[Lease]sighting{}
	}
	if !known || !equality.Semantic.DeepEqual(seen.record, l.Spec) {
		seen = sighting{record: *l.Spec.DeepCopy(), at: read}
	}
	seen.claim = claim
	o.since[leaseOf(l)] = seen
	return seen
}
